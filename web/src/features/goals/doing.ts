import type { FailedTry, Run } from "@/projection/graph";
import { clock } from "@/ui/time";

/** A step at work as a person reads it. */
export interface Doing {
  readonly what: string;
  readonly seconds: number;
  /** "attempt 2 of 4"; "" of the first. A call that its process took along is asked anew, and counted anew. */
  readonly attemptWords: string;
  /** What came of earlier ones, oldest first. */
  readonly failed: readonly string[];
  /** Whether the next try has not begun yet. */
  readonly isWaiting: boolean;
  readonly waitS: number;
  /** Whether nothing was heard of it for long. */
  readonly isQuiet: boolean;
}

export const QUIET_AFTER_S = 20;

const CODES: Readonly<Record<string, string>> = {
  rate_limited: "429, the provider's rate limit",
  provider_unavailable: "the provider is unavailable",
  model_timeout: "no answer within the time limit",
  model_reply_broken: "a broken reply",
};

export function doingOf(run: Run, nowMs: number): Doing {
  const tries = run.failedTries;
  const last = tries.at(-1);
  const nextMs = last === undefined ? 0 : last.atUs / 1000 + last.waitMs;
  const sinceMs = Math.max(run.doingUs / 1000, nextMs);
  const isWaiting = nextMs > nowMs;
  const attempt = (last?.attempt ?? 0) + 1;
  const isModel = run.doing.startsWith("model ");
  return {
    what: isModel ? `is deciding (${run.doing.slice("model ".length)})` : `uses ${run.doing}`,
    seconds: Math.max(0, Math.floor((nowMs - run.doingUs / 1000) / 1000)),
    attemptWords: attempt > 1 ? `attempt ${attempt}${ofAll(last)}` : "",
    failed: tries.map(failedWords),
    isWaiting,
    waitS: isWaiting ? Math.ceil((nextMs - nowMs) / 1000) : 0,
    isQuiet: !isWaiting && nowMs - sinceMs > QUIET_AFTER_S * 1000,
  };
}

/** The policy's number stands in the record of a try; in one of an older version it does not. */
function ofAll(one: FailedTry | undefined): string {
  return one !== undefined && one.attemptsMax > 0 ? ` of ${one.attemptsMax}` : "";
}

function failedWords(one: FailedTry): string {
  const why = CODES[one.code] ?? one.code.replaceAll("_", " ");
  if (one.attempt === 0) return `No reply came before its process ended, at ${clock(one.atUs)}; asked again.`;
  const waits = `waits ${Math.ceil(one.waitMs / 1000)} s`;
  return `Attempt ${one.attempt}${ofAll(one)} failed at ${clock(one.atUs)} (${why}); ${waits}.`;
}
