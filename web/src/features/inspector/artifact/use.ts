import { idOf, integer, record, splitStream, strings, text, texts, type WireEvent } from "@/projection/event";

export interface Use {
  readonly runId: string;
  /** `c2`: all prompts of iteration 2; or the key of a single prompt. */
  readonly step: string;
  readonly atUs: number;
  /** As it was cited: with its version. */
  readonly ref: string;
}

const USES_MAX = 100;

/** Refs of artifacts that an event says stood in a prompt, and in which. */
function cited(event: WireEvent): readonly [step: string, refs: readonly string[]] {
  if (event.kind === "decision.executed") return [`c${integer(event, "iteration")}`, texts(event, "read")];
  if (event.kind !== "context.assembled") return ["", []];
  const parts = event.data["parts"];
  const refs = Array.isArray(parts)
    ? (parts as unknown[]).flatMap((part) => strings(record(part)["src"]))
    : [];
  return [text(event, "key"), refs];
}

/** The newest prompts that contained an artifact, the newest first; those of one step count once. */
export function usesOf(events: readonly WireEvent[], id: string): readonly Use[] {
  const found = new Map<string, Use>();
  for (let at = events.length - 1; at >= 0 && found.size < USES_MAX; at -= 1) {
    const event = events[at];
    if (event === undefined) continue;
    const [step, refs] = cited(event);
    const ref = refs.find((one) => idOf(one) === id);
    if (ref === undefined) continue;
    const runId = splitStream(event.stream)[1];
    const name = `${runId} ${step.split("/", 1)[0]}`;
    if (!found.has(name)) found.set(name, { runId, step, atUs: event.at_us, ref });
  }
  return [...found.values()];
}
