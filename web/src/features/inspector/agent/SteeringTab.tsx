import type { Shape } from "@/client/types";
import { useGraph } from "@/state/log";
import { EmptyState } from "@/ui/EmptyState";
import { SteeringPanel } from "../steering/SteeringPanel";

/** How an agent is steered. */
export function SteeringTab({ agent }: { readonly agent: Shape<"AgentShown"> }) {
  const iteration = useGraph().agents.get(agent.id)?.iteration ?? 0;
  if (!agent.is_assignable) {
    return (
      <EmptyState title="Nothing to steer">
        Only agents that tasks are assigned to are steered; this one runs by its own code or by a chat.
      </EmptyState>
    );
  }
  return <SteeringPanel about={agent.id} used={agent.budget?.used ?? null} iteration={iteration} />;
}
