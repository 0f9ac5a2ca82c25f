import { api, path } from "@/client/http";
import type { Graph, Run } from "@/projection/graph";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { useGraph } from "@/state/log";
import { ActionButton } from "@/shell/ActionButton";

const DEPTH_MAX = 20;

/** The paused run above a run that is not paused itself: while it holds, nothing drives what is below. */
export function heldBy(graph: Graph, run: Run): string {
  if (run.status === "paused") return "";
  let above = graph.runs.get(run.parent);
  for (let depth = 0; above !== undefined && depth < DEPTH_MAX; depth += 1) {
    if (above.status === "paused") return above.id;
    above = graph.runs.get(above.parent);
  }
  return "";
}

/** Says that an agent could go on, but its goal is paused, and lets the goal go on. */
export function HeldByGoal({ runs }: { readonly runs: readonly Run[] }) {
  const graph = useGraph();
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const goal = runs.map((run) => heldBy(graph, run)).find((id) => id !== "");
  if (goal === undefined) return null;
  return (
    <div role="status" className="flex items-center gap-2 rounded-control border border-warn px-2.5 py-1.5">
      <p className="min-w-0 flex-1 break-words">
        <span className="num">{goal}</span> is paused, so nothing drives this agent.
      </p>
      <ActionButton
        label="Resume goal"
        size="small"
        busy={busy}
        may={may}
        onClick={() => void attempt(() => api.post(`${path("runs", goal)}/resume`))}
      />
    </div>
  );
}
