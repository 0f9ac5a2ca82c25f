import type { Shape } from "@/client/types";
import { record, shortName } from "@/projection/event";

/** One thing that was decided, and what came of it. */
export interface Decision {
  readonly key: string;
  readonly title: string;
  readonly why: string;
  readonly result: string;
  readonly microusd: number;
  /** The same text means the same decision with the same result. */
  readonly mark: string;
}

/** One of two ways that a run went, as the server's views have it. */
export interface Future {
  readonly decisions: readonly Decision[];
  readonly text: string;
  readonly outputs: readonly string[];
  readonly microusd: number;
  readonly tokens: number;
  readonly met: number;
  readonly criteria: number;
}

export interface Sources {
  readonly run: Shape<"RunShown">;
  readonly steps: readonly Shape<"Step">[];
  readonly costs: readonly Shape<"StepCost">[];
  /** null if the run is no task's. */
  readonly task: Shape<"TaskShown"> | null;
}

export function futureOf({ run, steps, costs, task }: Sources): Future {
  const result = record(run.result);
  const paid = (prefix: string) =>
    costs.filter((one) => one.key.startsWith(prefix)).reduce((sum, one) => sum + one.cost_microusd, 0);
  const decisions =
    task === null
      ? steps.map((step) => ofStep(step, costs.find((one) => one.key === step.key)?.cost_microusd ?? 0))
      : task.iterations.map((one) => ofIteration(one, paid(`c${one.iteration}/`)));
  const criteria = judged(task);
  return {
    decisions,
    text: textOf(run.result),
    outputs: task?.outputs ?? strings(result["outputs"]),
    microusd: run.total_cost_microusd ?? run.cost_microusd,
    tokens: run.usage.input_tokens + run.usage.output_tokens,
    met: criteria.filter((one) => record(one)["met"] === true).length,
    criteria: criteria.length,
  };
}

function ofStep(step: Shape<"Step">, microusd: number): Decision {
  const title = `${step.kind} ${step.key}`;
  return { key: step.key, title, why: "", result: step.status, microusd, mark: `${title} ${step.status}` };
}

function ofIteration(one: Shape<"Iteration">, microusd: number): Decision {
  const result = resultOf(one);
  return {
    key: String(one.iteration),
    title: one.tool ? `${one.action}: ${one.tool}` : one.action || "no decision",
    why: one.reason,
    result,
    microusd,
    mark: `${JSON.stringify(one.decision)} ${result}`,
  };
}

function resultOf(one: Shape<"Iteration">): string {
  if (one.is_error) return one.code === "" ? "failed" : `failed: ${one.code.replaceAll("_", " ")}`;
  const made = one.artifact ? `made ${shortName(one.artifact.split("@", 1)[0] ?? "")}` : "";
  const verdict = one.passed === null || one.passed === undefined ? "" : one.passed ? "passed" : "not passed";
  return [made, verdict].filter(Boolean).join(", ");
}

function judged(task: Shape<"TaskShown"> | null): readonly unknown[] {
  const last = task?.iterations.findLast((one) => one.passed !== null && one.passed !== undefined);
  const found = record(last?.verdict)["criteria"];
  return Array.isArray(found) ? (found as readonly unknown[]) : [];
}

function textOf(result: unknown): string {
  if (typeof result === "string") return result;
  const { text, output } = record(result);
  if (typeof text === "string" && text !== "") return text;
  if (output === undefined || output === null) return "";
  return typeof output === "string" ? output : JSON.stringify(output, null, 2);
}

function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}

export interface Pair {
  readonly key: string;
  readonly a: Decision | null;
  readonly b: Decision | null;
  readonly isSame: boolean;
}

/** Decisions beside each other by their place; the first that differs is where the two part. */
export function pairsOf(a: Future, b: Future): readonly Pair[] {
  const of = (one: Future) => new Map(one.decisions.map((decision) => [decision.key, decision]));
  const [left, right] = [of(a), of(b)];
  return [...new Set([...left.keys(), ...right.keys()])].map((key) => {
    const [mine, other] = [left.get(key) ?? null, right.get(key) ?? null];
    return { key, a: mine, b: other, isSame: mine !== null && mine.mark === other?.mark };
  });
}

/** What a fork changes, in words; "" for nothing. */
/** Where the puck of a fork stands, by the ends of its axes that it is moved to. */
function steeringWords(steering: Readonly<Record<string, unknown>>): string {
  const [xy, axes] = [record(steering["xy"]), record(steering["axes"])];
  const ends = ["x", "y"].map((axis) => {
    const [names, place] = [axes[axis], Number(xy[axis])];
    const end: unknown = Array.isArray(names) ? names[1] : undefined;
    return typeof end === "string" && Number.isFinite(place) ? `${end} ${place.toFixed(2)}` : "";
  });
  const words = ends.filter(Boolean).join(" · ");
  return words === "" ? "another steering" : `steering, ${words}`;
}

export function changeWords(changes: unknown): string {
  if (typeof changes === "string") return changes;
  return Object.entries(record(changes))
    .map(([name, value]) => {
      if (name === "model") return `model ${String(value)}`;
      return name === "steering" ? steeringWords(record(value)) : `${name} replaced by ${String(value)}`;
    })
    .join(", ");
}
