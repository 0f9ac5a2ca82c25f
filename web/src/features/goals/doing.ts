import type { Run } from "@/projection/graph";

/** A step at work as a person reads it. */
export interface Doing {
  readonly what: string;
  readonly seconds: number;
  /** The try at work, from 1. */
  readonly attempt: number;
  readonly failed: readonly { readonly atUs: number; readonly words: string; readonly waitS: number }[];
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
  const isModel = run.doing.startsWith("model ");
  return {
    what: isModel ? `is deciding (${run.doing.slice("model ".length)})` : `uses ${run.doing}`,
    seconds: Math.max(0, Math.floor((nowMs - run.doingUs / 1000) / 1000)),
    attempt: tries.length + 1,
    failed: tries.map((one) => ({
      atUs: one.atUs,
      words: CODES[one.code] ?? one.code.replaceAll("_", " "),
      waitS: Math.ceil(one.waitMs / 1000),
    })),
    isWaiting,
    waitS: isWaiting ? Math.ceil((nextMs - nowMs) / 1000) : 0,
    isQuiet: !isWaiting && nowMs - sinceMs > QUIET_AFTER_S * 1000,
  };
}
