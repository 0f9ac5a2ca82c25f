import type { WireEvent } from "./event";
import { fold } from "./fold";
import { EMPTY_GRAPH, type Graph } from "./graph";
import { type Pulse, STILL } from "./pulse";

export const CHECKPOINT_EVERY = 500;
export const EVENTS_MAX = 20_000;
/** Kept for the console and for time travel. Older ones stay counted in the graph, and are on the server. */

/** The state of the page at a position, as the server has folded it. */
export interface Snapshot {
  readonly graph: Graph;
  readonly pulse: Pulse;
  /** Events after this position may be had with it; 0 is the beginning of the log. */
  readonly windowFrom: number;
}

/** A stretch of the past: the state at its beginning, and all events after it up to a position. */
export interface Stretch {
  readonly base: Graph;
  readonly events: readonly WireEvent[];
  readonly upTo: number;
}

export const NOTHING: Snapshot = { graph: EMPTY_GRAPH, pulse: STILL, windowFrom: 0 };

/**
 * The graph of a snapshot and all events that came since, with a graph every 500 of them, so that any past
 * position is a short fold away. Events from before the snapshot are added when they are there (`prepend`).
 * Framework-free: `subscribe` and `snapshot` are what `useSyncExternalStore` wants.
 */
export class EventLog {
  #origin: Snapshot = NOTHING;
  #events: WireEvent[] = [];
  #base: Graph = EMPTY_GRAPH;
  /** `graph` is the fold of the base and the first `count` events. */
  #checkpoints: { readonly count: number; readonly graph: Graph }[] = [];
  #graph: Graph = EMPTY_GRAPH;
  readonly #listeners = new Set<() => void>();
  readonly #eventsMax: number;

  constructor({ eventsMax = EVENTS_MAX }: { readonly eventsMax?: number } = {}) {
    this.#eventsMax = eventsMax;
  }

  /** Begins with what the server has folded. What was here before is forgotten. */
  begin(origin: Snapshot): void {
    this.#origin = origin;
    this.#events = [];
    this.#base = this.#graph = origin.graph;
    this.#checkpoints = [];
    this.#tell();
  }

  /** Adds what is new, in ascending order of position; what came before is left out. */
  append(events: readonly WireEvent[]): void {
    let position = this.#graph.position;
    const fresh = events.filter((event) => {
      if (event.position <= position) return false;
      position = event.position;
      return true;
    });
    if (fresh.length === 0) return;
    for (let start = 0; start < fresh.length;) {
      const room = CHECKPOINT_EVERY - (this.#events.length % CHECKPOINT_EVERY);
      const part = fresh.slice(start, start + room);
      this.#events = this.#events.concat(part);
      this.#graph = fold(this.#graph, part);
      if (this.#events.length % CHECKPOINT_EVERY === 0) {
        this.#checkpoints.push({ count: this.#events.length, graph: this.#graph });
      }
      start += part.length;
    }
    this.#forget();
    this.#tell();
  }

  /** Adds a stretch that ends where the earliest events here begin; another one is left out. */
  prepend({ base, events, upTo }: Stretch): void {
    if (upTo !== this.#base.position || base.position >= upTo) return;
    const older = events.filter(({ position }) => position > base.position && position <= upTo);
    const before = { count: older.length, graph: this.#base };
    const after = this.#checkpoints.map(({ count, graph }) => ({ count: count + older.length, graph }));
    this.#checkpoints = [before, ...after];
    this.#base = base;
    this.#events = older.concat(this.#events);
    this.#graph = { ...this.#graph }; // whoever shows events looks again
    this.#tell();
  }

  /** The graph as it was right after `position`, at the earliest as it was at `earliest`. */
  foldTo(position: number): Graph {
    if (position >= this.#graph.position) return this.#graph;
    const count = this.#countUpTo(position);
    let from = 0;
    let graph = this.#base;
    for (const checkpoint of this.#checkpoints) {
      if (checkpoint.count > count) break;
      from = checkpoint.count;
      graph = checkpoint.graph;
    }
    return fold(graph, this.#events.slice(from, count));
  }

  /** Events up to a position, all without one. The array changes identity when events are added. */
  events(upTo: number | null = null): readonly WireEvent[] {
    if (upTo === null || upTo >= this.#graph.position) return this.#events;
    return this.#events.slice(0, this.#countUpTo(upTo));
  }

  /** The newest graph. The same object until something is added. */
  get graph(): Graph {
    return this.#graph;
  }

  /** What this began with. */
  get origin(): Snapshot {
    return this.#origin;
  }

  /** Time travel begins here: what came before is on the server. */
  get earliest(): number {
    return this.#base.position;
  }

  get position(): number {
    return this.#graph.position;
  }

  /** Begins again, for another tenant or another database. */
  clear(): void {
    this.begin({ ...NOTHING });
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly snapshot = (): Graph => this.#graph;

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

  /** Drops whole checkpoints, a quarter of the bound at a time, so that it costs little per event. */
  #forget(): void {
    if (this.#events.length <= this.#eventsMax) return;
    const wanted = this.#events.length - Math.floor((this.#eventsMax * 3) / 4);
    const last = this.#checkpoints.findLast((checkpoint) => checkpoint.count <= wanted);
    if (last === undefined || last.count === 0) return;
    this.#base = last.graph;
    this.#events = this.#events.slice(last.count);
    this.#checkpoints = this.#checkpoints
      .filter((checkpoint) => checkpoint.count > last.count)
      .map((checkpoint) => ({ count: checkpoint.count - last.count, graph: checkpoint.graph }));
  }
}
