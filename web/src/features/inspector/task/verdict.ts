import { record, strings } from "@/projection/event";

/** A verdict as far as it has the form that it should have; what a model wrote is never trusted to. */
export interface Verdict {
  readonly summary: string;
  readonly criteria: readonly Criterion[];
  readonly checks: readonly Check[];
  readonly faults: readonly string[];
  /** What rules about words have found, with the judge's answer. */
  readonly advice?: readonly string[];
}

export interface Criterion {
  readonly criterion: string;
  readonly met: boolean;
  readonly missing: string;
  readonly evidence: readonly { readonly ref: string; readonly quote: string }[];
}

export interface Check {
  readonly kind: string;
  readonly passed: boolean;
  readonly found: string;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function readVerdict(value: unknown): Verdict {
  const whole = record(value);
  const advice = list(whole["advice"]).map(answered);
  return {
    ...(advice.length > 0 && { advice }),
    summary: text(whole["summary"]),
    criteria: list(whole["criteria"]).map((one) => {
      const criterion = record(one);
      return {
        criterion: text(criterion["criterion"]),
        met: criterion["met"] === true,
        missing: text(criterion["missing"]),
        evidence: list(criterion["evidence"]).map((each) => {
          const evidence = record(each);
          return { ref: text(evidence["ref"]), quote: text(evidence["quote"]) };
        }),
      };
    }),
    checks: list(whole["checks"]).map((one) => {
      const check = record(one);
      return { kind: text(check["kind"]), passed: check["passed"] === true, found: text(check["found"]) };
    }),
    faults: list(whole["faults"]).map(finding),
  };
}

function answered(value: unknown): string {
  const { is_fault, why } = record(value);
  const answer =
    is_fault === true ? "a fault" : is_fault === false ? "no fault here" : "the judge passed over it";
  return `${finding(value)} (${[answer, text(why)].filter(Boolean).join(": ")})`;
}

function finding(value: unknown): string {
  const found = record(value);
  return [text(found["rule"]).replaceAll("_", " "), text(found["ref"]), strings(found["found"]).join(", ")]
    .filter(Boolean)
    .join(": ");
}

const VOID: Readonly<Record<string, string>> = {
  quote_not_found: "a quote does not stand in the version that it cites",
  no_evidence: "a criterion is called met without a quote",
  no_outputs: "there was nothing to judge",
  placeholder: "the judge passed over what looks like a placeholder",
  rejected: "a person has rejected these outputs",
  empty: "an output is empty",
  invalid: "the evaluator's reply was no verdict",
};

/** Why a verdict does not count. */
export function voidWords(code: string): string {
  return VOID[code] ?? code.replaceAll("_", " ");
}
