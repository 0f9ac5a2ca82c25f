import type { Shape } from "@/client/types";
import { useMayAct } from "@/shell/useMayAct";
import { useGraph } from "@/state/log";
import { Switch } from "@/ui/Switch";
import { Loaded } from "../parts/Loaded";
import { Lost } from "../steering/Lost";
import { useSteering } from "../steering/useSteering";
import { effectWords, lastIteration } from "../steering/words";
import { toolWords } from "./toolWords";

interface SwitchesProps {
  readonly about: string;
  readonly tools: readonly Shape<"AgentTool">[];
}

/** A switch for each tool that there is. */
export function Switches({ about, tools }: SwitchesProps) {
  const steering = useSteering(about);
  const may = useMayAct();
  const graph = useGraph();
  return (
    <Loaded query={steering.query} what="the switches" rows={6}>
      {(data) => {
        const shown = steering.shown ?? data;
        const { lost } = steering;
        const allowed = shown.in_force.sliders.iterations;
        return (
          <div className="flex flex-col gap-2 px-4 py-3">
            {lost !== null && (
              <Lost newest={data} onAgain={() => steering.save(lost)} onForget={steering.forgetLost} />
            )}
            <div>
              {tools.map((tool) => {
                const said = toolWords(tool, shown.tools[tool.name] ?? true, data.tools[tool.name] ?? true);
                return (
                  <Switch
                    key={tool.name}
                    label={tool.name}
                    checked={said.isOn}
                    why={said.why}
                    disabled={!may.ok || said.isFixed}
                    onChange={(isOn) => steering.save({ tools: { [tool.name]: isOn } })}
                  />
                );
              })}
            </div>
            <p role="status" className="text-12 text-ink-2">
              {may.ok ? effectWords(shown.from_iteration, lastIteration(graph, allowed)) : may.why}
            </p>
          </div>
        );
      }}
    </Loaded>
  );
}
