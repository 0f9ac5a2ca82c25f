import type { Shape } from "@/client/types";
import { useUi } from "@/state/ui";
import { EmptyState } from "@/ui/EmptyState";
import { OnlyNow } from "../parts/OnlyNow";
import { Switches } from "./Switches";

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
