import type { WireEvent } from "./event";
import { EMPTY_GRAPH, type Graph } from "./graph";
import { type Pulse, STILL } from "./pulse";

/** Kept for the console and for the line of time. Older ones stay counted in the graph, and are on the server. */
export const EVENTS_MAX = 20_000;

/** The state of the page at a position, as the server says it. */
export interface Snapshot {
  readonly graph: Graph;
  readonly pulse: Pulse;
  /** Events after this position may be had with it; 0 is the beginning of the log. */
  readonly windowFrom: number;
}

/** All events of a stretch of the past: those after a position, up to another one. */
export interface Stretch {
  readonly from: number;
  readonly upTo: number;
  readonly events: readonly WireEvent[];
}

export const NOTHING: Snapshot = { graph: EMPTY_GRAPH, pulse: STILL, windowFrom: 0 };

/**
 * What the server says of now, and the newest events that led there. Events from before the page began are added
 * when they are there (`prepend`). Framework-free: `subscribe` and `snapshot` are what `useSyncExternalStore` wants.
 */
export class EventLog {
  #origin: Snapshot = NOTHING;
  #now: Snapshot = NOTHING;
  #events: readonly WireEvent[] = [];
  #earliest = 0;
  readonly #listeners = new Set<() => void>();
  readonly #eventsMax: number;

  constructor({ eventsMax = EVENTS_MAX }: { readonly eventsMax?: number } = {}) {
    this.#eventsMax = eventsMax;
  }

  /** Begins with what the server has. What was here before is forgotten. */
  begin(origin: Snapshot): void {
    this.#origin = this.#now = origin;
    this.#events = [];
    this.#earliest = origin.graph.position;
    this.#tell();
  }

  /** Goes on to a later state, with the events that led to it, in ascending order of position. */
  advance(now: Snapshot, events: readonly WireEvent[]): void {
    const last = this.#events.at(-1)?.position ?? this.#earliest;
    this.#now = now;
    this.#events = this.#events.concat(events.filter(({ position }) => position > last));
    this.#forget();
    this.#tell();
  }

  /** Adds a stretch that ends where the earliest events here begin; another one is left out. */
  prepend({ from, upTo, events }: Stretch): void {
    if (upTo !== this.#earliest || from >= upTo) return;
    const older = events.filter(({ position }) => position > from && position <= upTo);
    this.#earliest = from;
    this.#events = older.concat(this.#events);
    this.#now = { ...this.#now, graph: { ...this.graph } }; // whoever shows events looks again
    this.#tell();
  }

  /** Events up to a position, all without one. The array changes identity when events are added. */
  events(upTo: number | null = null): readonly WireEvent[] {
    if (upTo === null || upTo >= this.position) return this.#events;
    return this.#events.slice(0, this.#countUpTo(upTo));
  }

  /** The newest graph. The same object until something is added. */
  get graph(): Graph {
    return this.#now.graph;
  }

  get pulse(): Pulse {
    return this.#now.pulse;
  }

  /** What this began with. */
  get origin(): Snapshot {
    return this.#origin;
  }

  /** Events after this position are here: those from before are on the server. */
  get earliest(): number {
    return this.#earliest;
  }

  get position(): number {
    return this.graph.position;
  }

  /** Begins again, for another tenant or another database. */
  clear(): void {
    this.begin({ ...NOTHING });
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly snapshot = (): Graph => this.graph;

  #tell(): void {
    this.#listeners.forEach((listener) => listener());
  }

  #countUpTo(position: number): number {
    let low = 0;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#events[middle]?.position ?? Infinity) <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Drops a quarter of the bound at a time, so that it costs little per event. */
  #forget(): void {
    if (this.#events.length <= this.#eventsMax) return;
    const count = this.#events.length - Math.floor((this.#eventsMax * 3) / 4);
    this.#earliest = this.#events[count - 1]?.position ?? this.#earliest;
    this.#events = this.#events.slice(count);
  }
}
