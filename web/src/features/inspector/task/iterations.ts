import type { Shape } from "@/client/types";
import type { Iteration } from "@/projection/graph";
import { readVerdict, type Verdict } from "./verdict";

/** An iteration with as much of its detail as was known at the moment that one looks at. */
export interface ShownIteration {
  readonly n: number;
  readonly atUs: number;
  readonly action: string;
  readonly tool: string;
  readonly reason: string;
  readonly repeats: number;
  readonly decision: unknown;
  readonly artifact: string;
  readonly isError: boolean;
  readonly code: string;
  /** null until it was judged. */
  readonly passed: boolean | null;
  readonly void: string;
  readonly verdict: Verdict;
  readonly steering: string;
}

/** What happened by the events, with the server's details of it; later details stay hidden in the past. */
export function iterationsOf(
  happened: readonly Iteration[],
  details: readonly Shape<"Iteration">[],
): readonly ShownIteration[] {
  const known = new Map(details.map((one) => [one.iteration, one]));
  return [...happened]
    .sort((a, b) => a.n - b.n)
    .map((one) => {
      const detail = known.get(one.n);
      const judged = one.passed === null ? undefined : detail?.verdict;
      const verdict = readVerdict(judged);
      return {
        n: one.n,
        atUs: one.atUs,
        action: one.action,
        tool: one.tool,
        reason: detail?.reason ?? one.reason,
        repeats: one.repeats,
        decision: detail?.decision ?? null,
        artifact: one.artifact,
        isError: one.isError,
        code: one.code,
        passed: one.passed,
        void: one.void,
        verdict: verdict.summary === "" ? { ...verdict, summary: one.summary } : verdict,
        steering: one.steering,
      };
    });
}
