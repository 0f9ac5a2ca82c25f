import { isWireEvent, type WireEvent } from "@/projection/event";
import type { Snapshot, Stretch } from "@/projection/store";
import { address, type Page } from "./http";
import { readRows } from "./snapshot";
import type { Shape } from "./types";

/**
 * `live`: events arrive as they happen. `loading`: what is stored is being read. `reconnecting`: the
 * connection broke a moment ago. `stale`: it broke long ago, so what is shown is old. `offline`: this
 * device has no network. `waiting`: no connection, and nothing has been read yet. `signed_out`: the server wants
 * a new sign-in.
 */
export type LiveState = "loading" | "live" | "reconnecting" | "stale" | "offline" | "waiting" | "signed_out";

/** Whether the page does not know yet what there is, so that it may call nothing missing. */
export function isUnread(live: LiveState): boolean {
  return live === "loading" || live === "waiting";
}

export interface Source {
  readonly readyState: number;
  onopen: (() => void) | null;
  onerror: (() => void) | null;
  onmessage: ((message: { readonly data: string }) => void) | null;
  close(): void;
}

/** The world outside: a browser's, or one that a test plays. */
export interface Surroundings {
  open(url: string): Source;
  /** The state of the page, now or at a position of the past. */
  snapshot(at: number | null, signal: AbortSignal): Promise<Snapshot>;
  page(after: number, signal: AbortSignal): Promise<Page<unknown>>;
  /** Fails if the server does not answer, or does not know us any more. */
  check(signal: AbortSignal): Promise<unknown>;
  /** Runs `task` before the next picture is drawn (or soon, while the page is hidden). */
  frame(task: () => void): void;
  later(task: () => void, ms: number): () => void;
  isOnline(): boolean;
}

const CLOSED = 2;
export const PAGE_EVENTS = 1000;
export const STALE_AFTER_MS = 15_000;
const RETRY_MS = [500, 1000, 2000, 5000, 10_000];

/** A message of the stream: the events since the one before, and the rows that changed with them. */
interface Change {
  readonly items: readonly unknown[];
  readonly graph: Shape<"GraphOut">;
}

function isChange(value: unknown): value is Change {
  const { items, graph } = (value ?? {}) as Partial<Change>;
  return Array.isArray(items) && Number.isSafeInteger(graph?.position);
}

function isAnew(value: unknown): boolean {
  return (value as { readonly anew?: unknown } | null)?.anew === true;
}

/**
 * The state of this tenant's page as the server says it, over broken connections: first the whole (`onBegin`), then
 * the rows that change with their events, each event once and in order; `onChange` gets one batch per frame. Once
 * that is live, the newest events from before are read, for the console and the line of time (`onWindow`).
 */
export class LiveFeed {
  readonly #outside: Surroundings;
  readonly #onBegin: (snapshot: Snapshot) => void;
  readonly #onWindow: (stretch: Stretch) => void;
  readonly #onChange: (now: Snapshot, events: readonly WireEvent[]) => void;
  readonly #onState: (state: LiveState) => void;
  /** What was handed out last; null if it must begin anew. */
  #now: Snapshot | null = null;
  /** The events from before the beginning that are still to be read. */
  #window: Pick<Stretch, "from" | "upTo"> | null = null;
  #hasBegun = false;
  /** Where the newest message stands. */
  #position = 0;
  #state: LiveState = "loading";
  #source: Source | null = null;
  #queue: Change[] = [];
  #framed = false;
  #attempt = 0;
  #generation = 0;
  #abort: AbortController | null = null;
  #cancelRetry: (() => void) | null = null;
  #cancelStale: (() => void) | null = null;

  constructor(options: {
    readonly outside: Surroundings;
    readonly onBegin: (snapshot: Snapshot) => void;
    readonly onWindow: (stretch: Stretch) => void;
    readonly onChange: (now: Snapshot, events: readonly WireEvent[]) => void;
    readonly onState: (state: LiveState) => void;
  }) {
    this.#outside = options.outside;
    this.#onBegin = options.onBegin;
    this.#onWindow = options.onWindow;
    this.#onChange = options.onChange;
    this.#onState = options.onState;
  }

  get state(): LiveState {
    return this.#state;
  }

  start(): void {
    this.#disconnect();
    void this.#connect(this.#generation);
  }

  /** From now on nothing is handed out, not even what waits for its frame; a later start reads that again. */
  stop(): void {
    this.#disconnect();
    this.#queue = [];
    this.#position = this.#now?.graph.position ?? 0;
  }

  #disconnect(): void {
    this.#generation += 1;
    this.#abort?.abort();
    this.#source?.close();
    this.#source = null;
    this.#cancelRetry?.();
    this.#cancelRetry = null;
    this.#cancelStale?.();
    this.#cancelStale = null;
  }

  /** The device's network came or went. */
  networkChanged(): void {
    if (!this.#outside.isOnline()) this.#broken(false);
    else if (this.#state !== "live" && this.#state !== "loading") this.start();
  }

  async #connect(generation: number): Promise<void> {
    try {
      // A stream that is refused does not say why; a request does.
      if (this.#now === null) await this.#begin(generation);
      else await this.#outside.check((this.#abort = new AbortController()).signal);
    } catch (error) {
      if (generation !== this.#generation) return;
      if (statusOf(error) === 401) this.#signedOut();
      else this.#broken(true);
      return;
    }
    if (generation === this.#generation) this.#listen(generation);
  }

  async #begin(generation: number): Promise<void> {
    this.#abort = new AbortController();
    const origin = await this.#outside.snapshot(null, this.#abort.signal);
    if (generation !== this.#generation) return;
    this.#now = origin;
    this.#hasBegun = true;
    this.#window = { from: origin.windowFrom, upTo: origin.graph.position };
    this.#queue = [];
    this.#position = origin.graph.position;
    this.#onBegin(origin);
  }

  /** The newest events from before this began. Without them the page is as live. */
  async #lookBack(generation: number): Promise<void> {
    const wanted = this.#window;
    if (wanted === null) return;
    this.#window = null;
    const { signal } = (this.#abort = new AbortController());
    try {
      const stretch = await readStretch(this.#outside, wanted, signal);
      if (generation === this.#generation) this.#onWindow(stretch);
      else this.#window ??= wanted;
    } catch {
      this.#window ??= wanted; // the next connection tries again
    }
  }

  #listen(generation: number): void {
    const source = this.#outside.open(address("/graph/stream", { after: this.#position }));
    this.#source = source;
    const mine = (task: () => void) => () => {
      if (generation === this.#generation) task();
    };
    source.onopen = mine(() => {
      this.#attempt = 0;
    });
    source.onmessage = (message) => mine(() => this.#receive(message.data))();
    // While it is not closed the browser itself reconnects, with Last-Event-ID.
    source.onerror = mine(() => this.#broken(source.readyState === CLOSED));
  }

  #receive(data: string): void {
    let message: unknown;
    try {
      message = JSON.parse(data);
    } catch {
      // Whatever that was, what has changed since the newest good message is asked for again.
      return this.start();
    }
    if (isAnew(message)) {
      this.#now = null;
      this.start();
    } else if (isChange(message)) {
      this.#take(message);
      this.#cancelStale?.();
      this.#cancelStale = null;
      this.#setState("live");
      void this.#lookBack(this.#generation);
    }
  }

  #take(change: Change): void {
    if (change.graph.position <= this.#position) return;
    this.#position = change.graph.position;
    this.#queue.push(change);
    if (this.#framed) return;
    this.#framed = true;
    this.#outside.frame(() => {
      this.#framed = false;
      const changes = this.#queue;
      this.#queue = [];
      if (this.#now === null || changes.length === 0) return;
      this.#now = changes.reduce((now, { graph }) => readRows(graph, now), this.#now);
      this.#onChange(
        this.#now,
        changes.flatMap(({ items }) => items.filter(isWireEvent)),
      );
    });
  }

  #broken(retry: boolean): void {
    if (this.#state === "signed_out") return;
    if (!this.#hasBegun) this.#setState("waiting");
    else if (!this.#outside.isOnline()) this.#setState("offline");
    else if (this.#state !== "stale") this.#setState("reconnecting");
    this.#cancelStale ??= this.#outside.later(() => {
      if (this.#state === "reconnecting") this.#setState("stale");
    }, STALE_AFTER_MS);
    if (!retry || this.#cancelRetry !== null) return;
    this.#source?.close();
    this.#source = null;
    const wait = RETRY_MS[Math.min(this.#attempt, RETRY_MS.length - 1)] ?? 10_000;
    this.#attempt += 1;
    const generation = this.#generation;
    this.#cancelRetry = this.#outside.later(() => {
      this.#cancelRetry = null;
      if (generation === this.#generation) void this.#connect(generation);
    }, wait);
  }

  #signedOut(): void {
    this.stop();
    this.#setState("signed_out");
  }

  #setState(state: LiveState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#onState(state);
  }
}

export async function readStretch(
  outside: Pick<Surroundings, "page">,
  { from, upTo }: Pick<Stretch, "from" | "upTo">,
  signal: AbortSignal,
): Promise<Stretch> {
  const events: WireEvent[] = [];
  for (let after: number | null = from; after !== null && after < upTo;) {
    const page: Page<unknown> = await outside.page(after, signal);
    events.push(...page.items.filter(isWireEvent));
    after = nextOf(page, after);
  }
  return { from, upTo, events };
}

function nextOf(page: Page<unknown>, after: number): number | null {
  const next = page.next === null ? null : Number(page.next);
  return next === null || !Number.isSafeInteger(next) || next <= after ? null : next;
}

function statusOf(error: unknown): number {
  return typeof error === "object" && error !== null && "status" in error ? Number(error.status) : 0;
}
