import type { WireEvent } from "./event";
import { indexAt } from "./timeline";

interface ListedStep {
  readonly key: string;
  readonly kind: string;
  readonly status: string;
  readonly requested_seq: number | null;
  readonly completed_seq: number | null;
}

interface ListedCost {
  readonly key: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost_microusd: number;
  readonly price_known: boolean;
}

export interface StepLine {
  readonly key: string;
  readonly kind: string;
  readonly status: string;
  /** Its first event in the run's stream. */
  readonly seq: number;
  readonly tokens: readonly [input: number, output: number] | null;
  readonly microusd: number | null;
  readonly isPriced: boolean;
}

/** Steps with what they cost, as they stood at the newest of these events: what came later is left out. */
export function runSteps(
  steps: readonly ListedStep[],
  costs: readonly ListedCost[],
  events: readonly WireEvent[],
  runId: string,
): readonly StepLine[] {
  const newest = newestSeq(events, runId);
  const paid = new Map(costs.map((cost) => [cost.key, cost]));
  return steps.flatMap((step) => {
    const seq = step.requested_seq ?? step.completed_seq ?? 0;
    if (seq > newest) return [];
    const isDone = step.completed_seq !== null && step.completed_seq <= newest;
    const isKnown = isDone || step.completed_seq === null;
    const cost = isDone ? paid.get(step.key) : undefined;
    return [
      {
        key: step.key,
        kind: step.kind,
        status: isKnown ? step.status : "requested",
        seq,
        tokens: cost === undefined ? null : ([cost.input_tokens, cost.output_tokens] as const),
        microusd: cost?.cost_microusd ?? null,
        isPriced: cost?.price_known ?? true,
      },
    ];
  });
}

/** The seq of the newest of these events that is of the run itself. */
export function newestSeq(events: readonly WireEvent[], runId: string): number {
  return events.findLast((event) => event.stream === `run:${runId}`)?.seq ?? 0;
}

/** The events of one step, in order. */
export function eventsOfStep(events: readonly WireEvent[], runId: string, key: string): readonly WireEvent[] {
  return events.filter((event) => event.stream === `run:${runId}` && event.data["key"] === key);
}

/** The event at a position, if it is among them. */
export function eventAt(events: readonly WireEvent[], position: number): WireEvent | undefined {
  const event = events[indexAt(events, position)];
  return event?.position === position ? event : undefined;
}
