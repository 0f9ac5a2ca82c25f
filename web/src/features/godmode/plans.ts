import { isFinal } from "@/projection/graph";
import type { Graph, Run } from "@/projection/graph";

/** A goal between its first word and its launch. */
export interface OpenPlan {
  readonly run: Run;
  /** Whether the plan is there and waits for a yes. */
  readonly isReady: boolean;
}

/** Goals that nobody has launched yet, the newest first. */
export function openPlans(graph: Graph): readonly OpenPlan[] {
  return [...graph.runs.values()]
    .filter((run) => run.loop === "mission" && !isFinal(run.status))
    .filter((run) => (graph.missions.get(run.id)?.launchedUs ?? null) === null)
    .map((run) => ({ run, isReady: isAsked(graph, run) }))
    .sort((a, b) => b.run.startedUs - a.run.startedUs);
}

function isAsked(graph: Graph, run: Run): boolean {
  for (const one of graph.approvals.values()) {
    if (one.runId === run.id && one.decision === "" && isLaunch(one.key)) return true;
  }
  return false;
}

/** Whether a question of a mission is the one about its launch. */
export function isLaunch(key: string): boolean {
  return key === "launch" || key.startsWith("launch/");
}

/** Where the making of a plan stands, in words. */
export function planningWords({ run, isReady }: OpenPlan): string {
  if (isReady) return "The plan is ready";
  if (run.status === "paused") return "Planning is paused";
  if (run.status === "pending") return "Planning waits for a worker";
  if (run.status === "budget_exhausted") return "Planning ran out of budget";
  if (run.doing.startsWith("model ")) return `Planning: asks ${run.doing.slice("model ".length)}`;
  if (run.doing !== "") return `Planning: uses ${run.doing}`;
  return "Planning";
}
