import { api, path } from "@/client/http";
import type { Graph } from "@/projection/graph";
import { shortName } from "@/projection/event";
import { dollars } from "@/ui/amounts";
import type { Shape } from "@/client/types";
import type { Goal, GoalTask } from "./useGoals";

/** The limit that was reached. */
export interface ReachedLimit {
  /** `run`: of the goal or the task. `agent`: its steering's. `membrane`: its steering's. */
  readonly kind: "run" | "agent" | "membrane";
  readonly id: string;
  /** Micro-dollars by now. */
  readonly spent: number;
  /** Micro-dollars that it allows, as far as they are known here. */
  readonly cap: number | null;
  /** The most that the step could have cost that was refused. */
  readonly asked: number;
  readonly words: string;
}

const SCOPE = /^usd of (run|agent|membrane):(.+)$/;

/** Which limit stopped it, as the run that met it has recorded; else that of the goal. */
export function reachedLimit(graph: Graph, goal: Goal, task: GoalTask | null): ReachedLimit {
  const run = graph.runs.get(task?.id ?? goal.id);
  const [, kind, id = ""] = SCOPE.exec(run?.reason ?? "") ?? [];
  const asked = run?.askedMicrousd ?? 0;
  const why =
    asked === 0
      ? ""
      : ` The next step may cost up to ${dollars(asked)}, which is set aside before it begins.`;
  if (kind === "agent" || kind === "membrane") {
    const own = goal.agents.find((one) => one.id === id);
    const pool = goal.membranes.find((one) => one.id === id);
    const name = own?.name ?? pool?.name ?? shortName(id);
    const spent = own?.cost_microusd ?? pool?.used_microusd ?? 0;
    return { kind, id, spent, cap: null, asked, words: `The limit is that of ${kind} ${name}.${why}` };
  }
  if (kind === "run" && id !== goal.id && task !== null)
    return {
      kind,
      id,
      spent: task.cost_microusd,
      cap: null,
      asked,
      words: `The limit is that of task ${shortName(id)}.${why}`,
    };
  return {
    kind: "run",
    id: goal.id,
    spent: goal.cost_microusd,
    cap: goal.budget_microusd ?? null,
    asked,
    words: `The limit is that of the whole goal.${why}`,
  };
}

/** Twice of what was allowed or spent, with room for two steps such as the refused one; in whole cents. */
export function suggestedUsd({ spent, cap, asked }: Pick<ReachedLimit, "spent" | "cap" | "asked">): string {
  const micro = Math.max(spent * 2, (cap ?? 0) * 2, spent + asked * 2);
  return (Math.max(1, Math.ceil(micro / 10_000)) / 100).toFixed(2);
}

/** Dollars as they were typed, in micro-dollars; null for what is no amount. */
export function microOf(text: string): number | null {
  return /^\d{1,9}(\.\d{1,6})?$/.test(text.trim()) ? Math.round(Number(text) * 1_000_000) : null;
}

/** Lifts the limit to an amount and lets go on what it stopped. */
export async function raise(
  goal: Goal,
  task: GoalTask | null,
  limit: ReachedLimit,
  usd: string,
): Promise<void> {
  if (limit.kind === "run") {
    await api.post(`${path("runs", limit.id)}/limit`, { unit: "usd", cap: usd });
  } else {
    await api.patch<Shape<"SteeringShown">>(path("steering", limit.id), { sliders: { budget_usd: usd } });
  }
  const stopped = goal.tasks.filter((one) => one.run_status === "budget_exhausted").map((one) => one.id);
  if (goal.run_status === "budget_exhausted" || (stopped.length === 0 && task === null))
    stopped.unshift(goal.id);
  for (const run of stopped) await api.post(`${path("runs", run)}/resume`, {});
}
