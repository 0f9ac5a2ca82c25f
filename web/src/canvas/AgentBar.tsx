import type { Agent, Graph } from "@/projection/graph";
import { liveMembranes } from "@/projection/vitals";
import { useCommand } from "@/shell/useCommand";
import { Menu, type MenuItem } from "@/ui/Menu";
import { MembraneIcon } from "@/ui/icons/icons";
import { changeMembership } from "./membership";
import { membranesOf } from "./scene";
import { useCanvas } from "./store";

interface AgentBarProps {
  readonly graph: Graph;
  readonly agent: Agent;
}

/** Membranes of the selected agent, without any drag. What else can be told it stands in the inspector. */
export function AgentBar({ graph, agent }: AgentBarProps) {
  const pending = useCanvas((state) => state.pending);
  const memberOf = membranesOf(graph, agent.id, pending);
  const { enabled } = useCommand("agent.membership");
  const why = enabled.ok ? undefined : enabled.why;
  const all = liveMembranes(graph).filter((one) => one.mission === agent.mission);
  const items = (isIn: boolean): readonly MenuItem[] => {
    const chosen = all.filter((one) => memberOf.includes(one.id) !== isIn);
    if (chosen.length === 0) {
      const nothing = isIn ? "It is in every membrane there is." : "It is in no membrane.";
      return [{ id: "none", label: nothing, disabled: true, run: () => undefined }];
    }
    return chosen.map((one) => ({
      id: one.id,
      label: one.name,
      disabled: !enabled.ok,
      why,
      run: () => void changeMembership({ agent: agent.id, membrane: one.id, isIn }),
    }));
  };
  return (
    <div
      role="group"
      aria-label={`Agent ${agent.name}`}
      className="flex flex-wrap items-center gap-1.5 rounded-card border border-line bg-panel p-1.5"
    >
      <span className="max-w-30 truncate px-1.5 font-semibold">{agent.name}</span>
      <Menu
        label="Join a membrane"
        text="Join…"
        icon={<MembraneIcon size={14} />}
        items={items(true)}
        align="right"
      />
      <Menu label="Leave a membrane" text="Leave…" items={items(false)} align="right" />
    </div>
  );
}
