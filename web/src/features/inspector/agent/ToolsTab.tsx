import type { Shape } from "@/client/types";
import { useUi } from "@/state/ui";
import { EmptyState } from "@/ui/EmptyState";
import { Switch } from "@/ui/Switch";
import { Loaded } from "../parts/Loaded";
import { OnlyNow } from "../parts/OnlyNow";
import { Lost } from "../steering/Lost";
import { useSteering } from "../steering/useSteering";
import { effectWords } from "../steering/words";
import { useCanAct } from "../useAct";
import { toolWords } from "./toolWords";

/** Which tools are on; a switch says why it is off, and cannot be moved where moving it would change nothing. */
export function ToolsTab({ agent }: { readonly agent: Shape<"AgentShown"> }) {
  const travel = useUi((state) => state.travel);
  if (travel !== null) return <OnlyNow what="Which tools are on" />;
  if (!agent.is_assignable || agent.tools === undefined || agent.tools.length === 0) {
    return (
      <EmptyState title="No tools">
        {agent.is_assignable
          ? "The folder that its tools work on is gone; start the server with --workspace to name one."
          : "What tools this agent has is up to the code that runs it."}
      </EmptyState>
    );
  }
  return <Switches about={agent.id} tools={agent.tools} />;
}

function Switches({
  about,
  tools,
}: {
  readonly about: string;
  readonly tools: readonly Shape<"AgentTool">[];
}) {
  const steering = useSteering(about);
  const may = useCanAct();
  return (
    <Loaded query={steering.query} what="the switches" rows={6}>
      {(data) => {
        const shown = steering.shown ?? data;
        const { lost } = steering;
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
              {may.ok ? effectWords(shown.from_iteration) : may.why}
            </p>
          </div>
        );
      }}
    </Loaded>
  );
}
