import { integer, type WireEvent } from "./event";

/** What a chat's branch was asked last: which run answers, and how it came to it. */
export interface Asked {
  readonly run: string;
  /** `generate`, `regenerate` or `continue`. */
  readonly trigger: string;
}

/**
 * When something last happened to a chat, a world or a goal, so that whoever shows its details knows when to ask
 * for them again. Two browsers are told the same, so they show the same.
 */
export interface Pulse {
  /** Position of the newest event by `session:x`, `world:w` or `mission:m`, and by `sessions`, `worlds` and `missions` for their lists. */
  readonly newest: ReadonlyMap<string, number>;
  /** By `chat#branch`. */
  readonly asked: ReadonlyMap<string, Asked>;
  /** The newest tick by world. */
  readonly ticks: ReadonlyMap<string, number>;
}

export const STILL: Pulse = { newest: new Map(), asked: new Map(), ticks: new Map() };

/** The tick at which a world stood after all of these events: the last that passed, 0 before the first. */
export function tickAfter(events: readonly WireEvent[], world: string): number {
  const last = events.findLast((event) => event.kind === "tick.passed" && event.stream === `world:${world}`);
  return last === undefined ? 0 : integer(last, "tick");
}
