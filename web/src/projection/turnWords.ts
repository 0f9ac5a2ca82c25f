import type { Meaning } from "./status";
import type { Effect, Operation, OperationStatus, Turn } from "./turn";

const MEANING: Readonly<Record<OperationStatus, Meaning>> = {
  planned: "quiet",
  running: "working",
  done: "good",
  skipped: "quiet",
  error: "bad",
  aborted: "attention",
};

const SKIPPED: Readonly<Record<string, string>> = {
  disabled: "it is switched off in the profile",
  trigger_mismatch: "it is not for this kind of turn",
  condition_false: "its condition was false",
  guard_not_matched: "its guard said no",
  not_due: "it is not due yet",
  dependency_failed: "what it depends on was not done",
  policy: "the policy does not allow it",
};

const PHASES: Readonly<Record<string, string>> = {
  planning: "Planning the operations",
  before_main_llm: "Working before the reply",
  barrier: "Committing what was prepared",
  main_llm: "Writing the reply",
  after_main_llm: "Working after the reply",
  commit: "Committing what came of it",
  finished: "Finished",
};

const ENDS: Readonly<Record<string, string>> = {
  user_abort: "stopped by a person; what was written is kept",
  deadline: "the deadline passed",
  provider_error: "the provider failed",
  rate_limited: "the provider asked to slow down",
  timeout: "the model did not answer in time",
  policy_error: "the provider refused, or the prompt was too long",
};

const WAITS: Readonly<Record<string, string>> = {
  approval: "waits for an approval",
  resume: "paused",
  budget: "out of budget",
  outcome: "waits until somebody says what became of a tool's call",
  worker: "waits for somebody to go on with it",
};

export function operationWords(one: Operation): { readonly word: string; readonly meaning: Meaning } {
  const meaning = MEANING[one.status];
  switch (one.status) {
    case "planned":
      return {
        word: one.dependsOn.length > 0 ? `waits for ${one.dependsOn.join(", ")}` : "planned",
        meaning,
      };
    case "skipped":
      return { word: `skipped: ${SKIPPED[one.reason] ?? (one.reason || "no reason given")}`, meaning };
    case "error":
      return { word: `error: ${one.message || one.code || "no message"}`, meaning };
    case "aborted":
      return { word: `cut off${one.code === "" ? "" : `: ${one.code}`}`, meaning };
    case "running":
    case "done":
      return { word: one.status, meaning };
  }
}

/** What an effect changed: "art.mood written", "prompt changed". */
export function effectWords(effect: Effect): string {
  const what =
    effect.tag !== "" ? `art.${effect.tag}` : effect.type.startsWith("prompt.") ? "the prompt" : "the turn";
  if (effect.status === "applied") return effect.tag === "" ? `changed ${what}` : `wrote ${what}`;
  const why = effect.code === "" ? effect.status : `${effect.status} (${effect.code})`;
  return `${what}: ${why}`;
}

/** Where a turn stands, in one sentence. */
export function turnWords(turn: Turn): { readonly word: string; readonly meaning: Meaning } {
  if (turn.status === "failed") {
    return {
      word: turn.message === "" ? `failed${ending(turn)}` : `failed: ${turn.message}`,
      meaning: "bad",
    };
  }
  if (turn.status === "cancelled") return { word: ENDS["user_abort"] ?? "", meaning: "attention" };
  if (turn.status !== "") return { word: "done", meaning: "good" };
  const waits = WAITS[turn.waitsFor];
  if (waits !== undefined) return { word: waits, meaning: "attention" };
  const running = turn.operations.filter((one) => one.status === "running").map((one) => one.id);
  const phase = PHASES[turn.phase] ?? "Beginning";
  return {
    word: running.length === 0 || turn.phase === "main_llm" ? phase : `${phase}: ${running.join(", ")}`,
    meaning: "working",
  };
}

function ending(turn: Turn): string {
  const why = ENDS[turn.finishReason];
  return why === undefined ? "" : `: ${why}`;
}

/** The operation that ended a turn, in its words; "" if none did. One that is not required ends no turn. */
export function failedOperation(turn: Turn): string {
  const one = turn.operations.find(({ status, required }) => status === "error" && required);
  return one === undefined ? "" : `Operation ${one.id}: ${one.message || one.code || "no message"}`;
}

/** How a variant ended, where that needs a word; "" where all is well. */
export function endWords(status: string, finishReason: string): string {
  if (status === "running" || (status === "done" && finishReason !== "deadline")) return "";
  const why = ENDS[finishReason];
  if (status === "aborted") return why ?? "stopped";
  return why === undefined ? "failed" : `failed: ${why}`;
}
