import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { useGraph } from "@/state/log";
import { useUi } from "@/state/ui";
import { EmptyState } from "@/ui/EmptyState";
import { Loaded } from "../parts/Loaded";
import { OnlyNow } from "../parts/OnlyNow";
import { agentRevision } from "../revisions";
import { useDetail } from "../useDetail";
import { NextPrompt } from "./NextPrompt";

/** What the next decision would be asked; nothing is sent for it. */
export function NextPromptTab({ agent }: { readonly agent: Shape<"AgentShown"> }) {
  const travel = useUi((state) => state.travel);
  const revision = agentRevision(useGraph(), agent.id);
  const query = useDetail<Shape<"Ahead">>(
    ["next-prompt", agent.id],
    (signal) => api.get(`${path("agents", agent.id)}/next-prompt`, undefined, signal),
    revision,
    { enabled: travel === null && agent.is_assignable },
  );
  if (travel !== null) return <OnlyNow what="The next prompt" />;
  if (!agent.is_assignable) {
    return (
      <EmptyState title="No next prompt">
        Only for agents that tasks are assigned to it is known beforehand what they would be asked.
      </EmptyState>
    );
  }
  return (
    <Loaded query={query} what="the next prompt" rows={8}>
      {({ prompt, why }) =>
        prompt === null ? (
          <EmptyState title="Nothing left to decide">{why} Assign a task to it, or retry one.</EmptyState>
        ) : (
          <NextPrompt prompt={prompt} />
        )
      }
    </Loaded>
  );
}
