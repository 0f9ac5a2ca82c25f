import { MAIN_SPACE, type WireEvent } from "@/projection/event";
import { type ConsoleRow, type RowGroup, rowOf } from "@/projection/rows";
import { eventLog } from "@/state/log";
import { dollars } from "@/ui/amounts";
import { clock, dayAndTime } from "@/ui/time";
import type { Tone } from "@/ui/tone";

const WORLD = {
  agentOf: (runId: string) => eventLog.graph.runs.get(runId)?.agent ?? "",
  money: dollars,
};

/** An event in one line, as every list of events shows it. */
export function rowFor(event: WireEvent): ConsoleRow {
  return rowOf(event, WORLD);
}

const TONES: Readonly<Record<RowGroup, Tone>> = {
  decision: "agent",
  action: "membrane",
  artifact: "artifact",
  money: "money",
  approval: "warn",
  verdict: "membrane",
  note: "membrane2",
  run: "neutral",
  bookkeeping: "neutral",
};

export function rowTone(row: ConsoleRow): Tone {
  return row.isFailure ? "bad" : TONES[row.group];
}

interface Moment {
  readonly atUs: number;
  readonly space: string;
}

/** When something happened: the time of day, or the tick of its world. */
export function timeOf({ atUs, space }: Moment): string {
  return space === MAIN_SPACE ? clock(atUs) : `tick ${atUs}`;
}

/** The same with the day. */
export function dateOf({ atUs, space }: Moment): string {
  return space === MAIN_SPACE ? dayAndTime(atUs) : `tick ${atUs} of ${space.replace(/^world:/, "")}`;
}
