import type { Graph, Iteration } from "./graph";
import { shortName } from "./event";

/** One line of the decision log. */
export interface DecisionRow extends Iteration {
  readonly id: string;
  readonly task: string;
  readonly mission: string;
  readonly agent: string;
  readonly verdict: string;
}

/** What evaluation said, in a word. */
export function verdictOf(iteration: Iteration): string {
  if (iteration.passed === true) return "passed";
  if (iteration.void !== "") return `void: ${iteration.void}`;
  if (iteration.passed === false) return "not passed";
  return iteration.isError ? `failed: ${iteration.code}` : "";
}

/** Every decision that was taken, in the order in which it was. Those that a fork shares are its origin's. */
export function decisionRows(graph: Graph): readonly DecisionRow[] {
  const seen = new Set<number>();
  return [...graph.tasks.values()]
    .flatMap((task) =>
      task.iterations.map((iteration) => ({
        ...iteration,
        id: `${task.id} ${iteration.n}`,
        task: task.id,
        mission: task.mission,
        agent: task.agent,
        verdict: verdictOf(iteration),
      })),
    )
    .filter((row) => !seen.has(row.position) && seen.add(row.position))
    .sort((a, b) => a.position - b.position);
}

export const DECISION_FIELDS = [
  "position",
  "at_us",
  "task",
  "agent",
  "iteration",
  "action",
  "tool",
  "reason",
  "artifact",
  "verdict",
  "summary",
  "repeats",
  "steering",
] as const;

/** A decision as it is exported. */
export function exportedDecision(row: DecisionRow): Readonly<Record<string, string | number>> {
  return {
    position: row.position,
    at_us: row.atUs,
    task: row.task,
    agent: row.agent,
    iteration: row.n,
    action: row.action,
    tool: row.tool,
    reason: row.reason,
    artifact: row.artifact,
    verdict: row.verdict,
    summary: row.summary,
    repeats: row.repeats,
    steering: row.steering,
  };
}

/** `figures 2`: what a person calls a decision. */
export function decisionName(row: DecisionRow): string {
  return `${shortName(row.task)} ${row.n}`;
}
