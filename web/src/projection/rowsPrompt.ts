import { flag, integer, splitStream, text, type WireEvent } from "./event";

/** One prompt that was sent: a model step of a run. */
export interface PromptStep {
  readonly runId: string;
  readonly step: string;
  readonly position: number;
  readonly seq: number;
  readonly atUs: number;
  /** Key of the prompt that its run was sent before, of a fork also by its origin; "" for the first. */
  readonly previous: string;
  /** As the provider counted; null until it answered. */
  readonly inputTokens: number | null;
  readonly cachedTokens: number | null;
  readonly outputTokens: number | null;
  readonly microusd: number | null;
  readonly hasFailed: boolean;
}

/** All prompts that were sent, the oldest first. A step that was asked for again stands once, with its newest. */
export function promptSteps(events: Iterable<WireEvent>): readonly PromptStep[] {
  const found = new Map<string, PromptStep>();
  const sent = new Map<string, readonly Sent[]>();
  for (const event of events) {
    if (!CONCERNED.has(event.kind)) continue;
    const [, runId] = splitStream(event.stream);
    const step = text(event, "key");
    const before = sent.get(runId) ?? [];
    if (event.kind === "run.forked") {
      const shared = (sent.get(text(event, "origin")) ?? []).filter((one) => one.seq <= integer(event, "at"));
      sent.set(
        runId,
        shared.map((one) => ({ ...one, seq: 0 })),
      );
    } else if (event.kind === "context.assembled") {
      const previous = before.findLast((one) => one.step !== step)?.step ?? "";
      sent.set(runId, [...before.slice(-SENT_MAX), { step, seq: event.seq }]);
      found.set(`${runId} ${step}`, unanswered(event, runId, step, previous));
    } else {
      const asked = found.get(`${runId} ${step}`);
      if (asked !== undefined) found.set(`${runId} ${step}`, answered(asked, event));
    }
  }
  return [...found.values()];
}

interface Sent {
  readonly step: string;
  /** In its run; 0 for what a fork shares. */
  readonly seq: number;
}

const CONCERNED: ReadonlySet<string> = new Set([
  "run.forked",
  "context.assembled",
  "model.completed",
  "model.failed",
]);
/** Prompts of a run among which a fork looks for the one before it. */
const SENT_MAX = 100;

function unanswered(event: WireEvent, runId: string, step: string, previous: string): PromptStep {
  return {
    runId,
    step,
    position: event.position,
    seq: event.seq,
    atUs: event.at_us,
    previous,
    inputTokens: null,
    cachedTokens: null,
    outputTokens: null,
    microusd: null,
    hasFailed: false,
  };
}

function answered(step: PromptStep, event: WireEvent): PromptStep {
  if (event.kind === "model.failed") return { ...step, hasFailed: true, microusd: integer(event, "cost") };
  return {
    ...step,
    hasFailed: false,
    inputTokens: integer(event, "input_tokens"),
    cachedTokens: integer(event, "cached_input_tokens"),
    outputTokens: integer(event, "output_tokens"),
    microusd: flag(event, "unpriced") ? null : integer(event, "cost"),
  };
}

export function promptsOfRun(steps: readonly PromptStep[], runId: string): readonly PromptStep[] {
  return steps.filter((step) => step.runId === runId);
}

/** What a run had been shown last when an event happened; undefined before its first prompt. */
export function promptBefore(
  steps: readonly PromptStep[],
  at: { readonly runId: string; readonly step: string; readonly position: number },
): PromptStep | undefined {
  const mine = promptsOfRun(steps, at.runId);
  return mine.find((step) => step.step === at.step) ?? mine.findLast((step) => step.position <= at.position);
}
