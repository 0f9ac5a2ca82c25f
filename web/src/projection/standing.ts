import { isFinal } from "./graph";
import type { GoalStatus, Graph, RunStatus, Spend, Task } from "./graph";
import { missions } from "./vitals";

/** How far a mission is, for whoever looks at the page for the first time. */
export interface Standing {
  readonly id: string;
  readonly goal: string;
  readonly status: GoalStatus;
  readonly tasks: number;
  readonly done: number;
  /** Of its run and of all below it. */
  readonly microusd: number;
  readonly tokens: number;
  /** Calls whose price nobody knows: then `microusd` is a lower bound. */
  readonly unpriced: number;
  /** Missions beside this one. */
  readonly others: number;
}

/** The mission that is spoken of: the chosen one, else the newest that can still go on, else the newest; "" for none. */
export function shownMission(graph: Graph, chosen: string): string {
  if (graph.missions.has(chosen)) return chosen;
  const all = missions(graph);
  const open = all.find(({ id }) => {
    const run = graph.runs.get(id);
    return run !== undefined && !isFinal(run.status);
  });
  return (open ?? all[0])?.id ?? "";
}

/** null if there is no such mission. */
export function standing(graph: Graph, id: string): Standing | null {
  const run = graph.runs.get(id);
  if (run === undefined || !graph.missions.has(id)) return null;
  const tasks = tasksOf(graph, id);
  const own = [...graph.runs.values()].filter((one) => isBelow(graph, one.id, id));
  const sum = (of: (spend: Spend) => number) => own.reduce((total, one) => total + of(one.spend), 0);
  return {
    id,
    goal: run.goal || id,
    status: goalStatus(tasks, run.status),
    tasks: tasks.length,
    done: tasks.filter((task) => task.status === "done").length,
    microusd: sum((spend) => spend.microusd),
    tokens: sum((spend) => spend.inputTokens + spend.outputTokens),
    unpriced: sum((spend) => spend.unpriced),
    others: graph.missions.size - 1,
  };
}

/** Those of a mission. A fork of one asks what would have been: it counts for no goal. */
export function tasksOf(graph: Graph, mission: string): readonly Task[] {
  const isFork = (id: string) => (graph.runs.get(id)?.origin ?? "") !== "";
  return [...graph.tasks.values()].filter((task) => task.mission === mission && !isFork(task.id));
}

/**
 * Where a goal stands: once its run has ended, as its own tasks do, whatever the run has ended as. The server's
 * `goal_status`.
 */
export function goalStatus(tasks: readonly Task[], run: RunStatus): GoalStatus {
  const own = tasks.filter((task) => task.parent === "" && task.agent !== "").map((task) => task.status);
  if (!isFinal(run) || own.length === 0) return run;
  if (own.every((status) => status === "done")) return "completed";
  if (own.includes("active")) return "running";
  // What a cancelled mission had not begun with is over with it.
  if (own.includes("pending")) return run === "cancelled" ? "cancelled" : "pending";
  if (own.includes("failed")) return "failed";
  return own.includes("blocked") ? "blocked" : "cancelled";
}

/** Whether a run is this one or stands below it. */
function isBelow(graph: Graph, id: string, root: string): boolean {
  const seen = new Set<string>();
  for (let at = id; at !== "" && !seen.has(at); at = graph.runs.get(at)?.parent ?? "") {
    if (at === root) return true;
    seen.add(at);
  }
  return false;
}
