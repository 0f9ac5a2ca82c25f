import { counted } from "@/projection/counted";
import type { Shape } from "@/client/types";
import type { Graph } from "@/projection/graph";
import { shortName } from "@/projection/event";
import { clock } from "@/ui/time";

type Shown = Shape<"SteeringShown">;

/** Of a task; null if that is not known. */
export type LastIteration = (task: string) => number | null;

/** The last iteration that a task may have: by its definition and by what steering allows. */
export function lastIteration(graph: Pick<Graph, "tasks">, allowed: number): LastIteration {
  return (id) => {
    const task = graph.tasks.get(id);
    if (task === undefined || task.iterationsMax === 0) return null;
    return Math.min(task.iterationsMax, task.iterationsBefore + allowed);
  };
}

/** From where on a change counts, as a sentence. */
export function effectWords(from: Shown["from_iteration"], lastOf: LastIteration): string {
  const isOver = (one: (typeof from)[number]) => one.iteration > (lastOf(one.task) ?? Infinity);
  const [first, ...others] = from;
  if (first === undefined) return "Takes effect as soon as there is a task to work on.";
  if (others.length === 0) {
    if (isOver(first))
      return `No iteration of ${shortName(first.task)} is left: takes effect if it is allowed more, or tried again.`;
    const begins = first.is_begun ? "" : ", which has not begun";
    return `Takes effect at iteration ${first.iteration} of ${shortName(first.task)}${begins}.`;
  }
  const each = from.map((one) =>
    isOver(one)
      ? `${shortName(one.agent)} if it is allowed more iterations`
      : `${shortName(one.agent)} at iteration ${one.iteration}`,
  );
  return `Takes effect for ${each.join(", ")}.`;
}

export function versionWords(shown: Pick<Shown, "version" | "changed_by" | "changed_us">): string {
  if (shown.version === 0) return "Nobody has steered yet: these are the defaults.";
  const by = shown.changed_by === null ? "" : ` by ${shown.changed_by}`;
  const at = shown.changed_us === null ? "" : ` at ${clock(shown.changed_us)}`;
  return `Version ${shown.version}${by}${at}.`;
}

/** The parameters that the puck sets, in one line. */
export function parameterWords(policy: Shape<"Policy">): string {
  return [
    `temperature ${policy.temperature.toFixed(1)}`,
    `${policy.alternatives} weighed`,
    policy.breadth === null ? "any enabled tool" : `at most ${counted(policy.breadth, "tool")}`,
    `${policy.sources_min} or more sources`,
    `about ${policy.words_target.toLocaleString("en-US")} words`,
  ].join(" · ");
}
