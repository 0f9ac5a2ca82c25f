import { record } from "@/projection/event";
import type { Shape } from "@/client/types";

/** A quote by which a judge has found a criterion met; its number is that of the mark in the text. */
export interface Evidence {
  readonly number: number;
  readonly criterion: string;
  readonly ref: string;
  readonly quote: string;
}

export interface Judged {
  readonly met: number;
  readonly criteria: number;
  readonly summary: string;
  readonly evidence: readonly Evidence[];
}

const EVIDENCE_MAX = 30;
const NOTHING: Judged = { met: 0, criteria: 0, summary: "", evidence: [] };

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The newest verdict that counts. What a model wrote is taken only as far as it has the form of one. */
export function judgedOf(task: Shape<"TaskShown"> | undefined): Judged {
  const last = task?.iterations.findLast(
    (one) => one.passed !== null && one.passed !== undefined && one.void === "",
  );
  const criteria = list(record(last?.verdict)["criteria"]).map(record);
  if (last === undefined || criteria.length === 0) return NOTHING;
  const found = criteria.flatMap((one) =>
    list(one["evidence"]).map((each) => ({
      criterion: text(one["criterion"]),
      ref: text(record(each)["ref"]),
      quote: text(record(each)["quote"]),
    })),
  );
  return {
    met: criteria.filter((one) => one["met"] === true).length,
    criteria: criteria.length,
    summary: text(record(last.verdict)["summary"]),
    evidence: found
      .filter((one) => one.quote !== "")
      .slice(0, EVIDENCE_MAX)
      .map((one, index) => ({ ...one, number: index + 1 })),
  };
}
