import { idOf, record, strings, type WireEvent, splitStream, text } from "@/projection/event";

export interface Use {
  readonly runId: string;
  readonly step: string;
  readonly atUs: number;
  /** As the prompt cites it: with its version. */
  readonly ref: string;
  readonly part: string;
}

const USES_MAX = 100;

/** The newest prompts that contained an artifact, the newest first. */
export function usesOf(events: readonly WireEvent[], id: string): readonly Use[] {
  const found: Use[] = [];
  for (let at = events.length - 1; at >= 0 && found.length < USES_MAX; at -= 1) {
    const event = events[at];
    if (event?.kind !== "context.assembled") continue;
    const parts = event.data["parts"];
    if (!Array.isArray(parts)) continue;
    for (const part of parts as unknown[]) {
      const ref = strings(record(part)["src"]).find((source) => idOf(source) === id);
      if (ref === undefined) continue;
      const tag = record(part)["tag"];
      found.push({
        runId: splitStream(event.stream)[1],
        step: text(event, "key"),
        atUs: event.at_us,
        ref,
        part: typeof tag === "string" ? tag : "",
      });
    }
  }
  return found;
}
