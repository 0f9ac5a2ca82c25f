import { flag, integer, splitStream, text, type WireEvent } from "./event";

/** One prompt that was sent: a model step of a run. */
export interface PromptStep {
  readonly runId: string;
  readonly step: string;
  readonly position: number;
  readonly seq: number;
  readonly atUs: number;
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
  for (const event of events) {
    if (event.kind === "context.assembled") {
      const [, runId] = splitStream(event.stream);
      const step = text(event, "key");
      found.set(`${runId} ${step}`, {
        runId,
        step,
        position: event.position,
        seq: event.seq,
        atUs: event.at_us,
        inputTokens: null,
        cachedTokens: null,
        outputTokens: null,
        microusd: null,
        hasFailed: false,
      });
    } else if (event.kind === "model.completed" || event.kind === "model.failed") {
      const [, runId] = splitStream(event.stream);
      const key = `${runId} ${text(event, "key")}`;
      const before = found.get(key);
      if (before !== undefined) found.set(key, answered(before, event));
    }
  }
  return [...found.values()];
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

/** The prompt that the same run was sent before this one. */
export function previousPrompt(
  steps: readonly PromptStep[],
  step: { readonly runId: string; readonly step: string },
): PromptStep | undefined {
  const mine = promptsOfRun(steps, step.runId);
  const index = mine.findIndex((one) => one.step === step.step);
  return index > 0 ? mine[index - 1] : undefined;
}
