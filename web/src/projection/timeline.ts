import { flag, integer, splitStream, text, type WireEvent } from "./event";

export const LANES = ["decision", "artifact", "approval", "steering", "failure"] as const;
export type Lane = (typeof LANES)[number];

/** Something on the line of time that one may want to go to. */
export interface Mark {
  /** Its place among the events, from 0. */
  readonly index: number;
  readonly position: number;
  readonly lane: Lane;
}

const PLUMBING: ReadonlySet<string> = new Set(["agent", "task", "membrane", "steering"]);

function laneOf(event: WireEvent): Lane | null {
  if (event.kind === "decision.taken") return "decision";
  if (event.kind === "note.injected") return "steering";
  if (event.kind === "artifact.written") {
    if (text(event, "kind") === "steering") return integer(event, "version") > 1 ? "steering" : null;
    return PLUMBING.has(text(event, "kind")) ? null : "artifact";
  }
  if (event.kind.startsWith("approval.")) return "approval";
  return isFailure(event) ? "failure" : null;
}

function isFailure(event: WireEvent): boolean {
  if (event.kind === "task.ended") return text(event, "status") !== "done";
  if (event.kind === "tool.completed" || event.kind === "decision.executed") return flag(event, "is_error");
  return (
    event.kind.endsWith(".failed") ||
    event.kind === "decision.invalid" ||
    event.kind === "tool.unresolved" ||
    event.kind === "tool.refused" ||
    event.kind === "run.exhausted"
  );
}

export function marksOf(events: readonly WireEvent[]): readonly Mark[] {
  return events.flatMap((event, index) => {
    const lane = laneOf(event);
    return lane === null ? [] : [{ index, position: event.position, lane }];
  });
}

export interface Bucket {
  readonly lane: Lane;
  readonly column: number;
  readonly count: number;
  /** The newest of them. */
  readonly mark: Mark;
}

/** Marks that would lie on each other become one; at most `columns` per lane. */
export function bucketed(marks: readonly Mark[], events: number, columns: number): readonly Bucket[] {
  const found = new Map<string, Bucket>();
  for (const mark of marks) {
    const column = Math.min(columns - 1, Math.floor((mark.index / Math.max(1, events - 1)) * columns));
    const key = `${mark.lane} ${column}`;
    const before = found.get(key);
    found.set(key, { lane: mark.lane, column, count: (before?.count ?? 0) + 1, mark });
  }
  return [...found.values()];
}

/** Index of the last event at or below a position; -1 before the first. Positions ascend. */
export function indexAt(events: readonly WireEvent[], position: number): number {
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((events[middle]?.position ?? Infinity) <= position) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The next mark in a direction. */
export function nextMark(marks: readonly Mark[], index: number, forward: boolean): Mark | undefined {
  return forward ? marks.find((mark) => mark.index > index) : marks.findLast((mark) => mark.index < index);
}

const ENDS: ReadonlySet<string> = new Set(["run.completed", "run.failed", "run.cancelled"]);

/** Where a run can be forked: the seq of its newest event up to here, its end left out. */
export interface ForkPoint {
  readonly runId: string;
  readonly seq: number;
  readonly kind: string;
  readonly step: string;
}

/**
 * Each run that had begun by `index`, with the point where a fork would part from it; the one that acted
 * last comes first.
 */
export function forkPoints(events: readonly WireEvent[], index: number): readonly ForkPoint[] {
  const found = new Map<string, ForkPoint>();
  for (let at = index; at >= 0; at -= 1) {
    const event = events[at];
    if (event === undefined || !event.stream.startsWith("run:") || ENDS.has(event.kind)) continue;
    const [, runId] = splitStream(event.stream);
    if (found.has(runId)) continue;
    found.set(runId, { runId, seq: event.seq, kind: event.kind, step: text(event, "key") });
  }
  return [...found.values()];
}
