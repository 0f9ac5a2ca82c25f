import { isWireEvent, type WireEvent } from "@/projection/event";
import { EMPTY_GRAPH } from "@/projection/graph";
import type { Snapshot, Stretch } from "@/projection/store";
import { address, type Page } from "./http";

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
  /** Runs `task` before the next picture is drawn (or soon, while the page is hidden). */
  frame(task: () => void): void;
  later(task: () => void, ms: number): () => void;
  isOnline(): boolean;
}

const CLOSED = 2;
export const PAGE_EVENTS = 1000;
/** Whoever is further behind begins anew, which is quicker than to fold as much. */
export const BEHIND_MAX = 5_000;
export const STALE_AFTER_MS = 15_000;
const RETRY_MS = [500, 1000, 2000, 5000, 10_000];

/**
 * The state of this tenant's page and then its events, each once and in order, over broken connections.
 * First what the server has folded (`onBegin`), then what came since, page by page, then the stream; `onEvents`
 * gets one batch per frame. Once that is live, the newest events from before are read, for the console and for
 * time travel (`onWindow`).
 */
export class LiveFeed {
  readonly #outside: Surroundings;
  readonly #onBegin: (snapshot: Snapshot) => void;
  readonly #onWindow: (stretch: Stretch) => void;
  readonly #onEvents: (events: readonly WireEvent[]) => void;
  readonly #onState: (state: LiveState) => void;
  #origin: Snapshot | null = null;
  #hasWindow = false;
  #hasBegun = false;
  #position = 0;
  /** Position of the newest event that was handed out. */
  #delivered = 0;
  #state: LiveState = "loading";
  #source: Source | null = null;
  #queue: WireEvent[] = [];
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
    readonly onEvents: (events: readonly WireEvent[]) => void;
    readonly onState: (state: LiveState) => void;
  }) {
    this.#outside = options.outside;
    this.#onBegin = options.onBegin;
    this.#onWindow = options.onWindow;
    this.#onEvents = options.onEvents;
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
    this.#position = this.#delivered;
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
      await this.#begin(generation);
      if (!(await this.#catchUp(generation))) {
        this.#origin = null;
        return await this.#connect(generation);
      }
    } catch (error) {
      if (generation !== this.#generation) return;
      if (statusOf(error) === 401) this.#signedOut();
      else this.#broken(true);
      return;
    }
    if (generation === this.#generation) this.#listen(generation);
  }

  async #begin(generation: number): Promise<void> {
    if (this.#origin !== null) return;
    this.#abort = new AbortController();
    const origin = await this.#outside.snapshot(null, this.#abort.signal);
    if (generation !== this.#generation) return;
    this.#origin = origin;
    this.#hasBegun = true;
    this.#hasWindow = origin.windowFrom >= origin.graph.position;
    this.#queue = [];
    this.#position = this.#delivered = origin.graph.position;
    this.#onBegin(origin);
  }

  /** Reads what is stored; whether it was little enough to go on from. */
  async #catchUp(generation: number): Promise<boolean> {
    let after = this.#position;
    let events = 0;
    for (;;) {
      if (generation !== this.#generation) return true;
      this.#abort = new AbortController();
      const page = await this.#outside.page(after, this.#abort.signal);
      if (generation !== this.#generation) return true;
      events += page.items.length;
      if (events > BEHIND_MAX) return false;
      page.items.forEach((item) => this.#take(item));
      const next = nextOf(page, after);
      if (next === null) return true;
      after = next;
    }
  }

  /** The newest events from before this began, and what they stand on. Without them the page is as live. */
  async #lookBack(generation: number): Promise<void> {
    const origin = this.#origin;
    if (origin === null || this.#hasWindow) return;
    this.#hasWindow = true;
    const { signal } = (this.#abort = new AbortController());
    try {
      const wanted = { from: origin.windowFrom, upTo: origin.graph.position };
      const stretch = await readStretch(this.#outside, wanted, signal);
      if (generation === this.#generation) this.#onWindow(stretch);
      else this.#hasWindow = false;
    } catch {
      this.#hasWindow = false; // the next connection tries again
    }
  }

  #listen(generation: number): void {
    const source = this.#outside.open(address("/events", { after: this.#position }));
    this.#source = source;
    const mine = (task: () => void) => () => {
      if (generation === this.#generation) task();
    };
    source.onopen = mine(() => {
      this.#attempt = 0;
      this.#cancelStale?.();
      this.#cancelStale = null;
      this.#setState("live");
      void this.#lookBack(generation);
    });
    source.onmessage = (message) => mine(() => this.#receive(message.data))();
    // While it is not closed the browser itself reconnects, with Last-Event-ID.
    source.onerror = mine(() => this.#broken(source.readyState === CLOSED));
  }

  #receive(data: string): void {
    try {
      this.#take(JSON.parse(data));
    } catch {
      // Whatever that was, what is stored after the newest good event is read again.
      this.start();
    }
  }

  #take(value: unknown): void {
    if (!isWireEvent(value) || value.position <= this.#position) return;
    this.#position = value.position;
    this.#queue.push(value);
    if (this.#framed) return;
    this.#framed = true;
    this.#outside.frame(() => {
      this.#framed = false;
      const events = this.#queue;
      this.#queue = [];
      this.#delivered = events.at(-1)?.position ?? this.#delivered;
      if (events.length > 0) this.#onEvents(events);
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
  outside: Pick<Surroundings, "snapshot" | "page">,
  { from, upTo }: { readonly from: number; readonly upTo: number },
  signal: AbortSignal,
): Promise<Stretch> {
  const base = from === 0 ? EMPTY_GRAPH : (await outside.snapshot(from, signal)).graph;
  const events: WireEvent[] = [];
  for (let after: number | null = from; after !== null && after < upTo;) {
    const page: Page<unknown> = await outside.page(after, signal);
    events.push(...page.items.filter(isWireEvent));
    after = nextOf(page, after);
  }
  return { base, events, upTo };
}

function nextOf(page: Page<unknown>, after: number): number | null {
  const next = page.next === null ? null : Number(page.next);
  return next === null || !Number.isSafeInteger(next) || next <= after ? null : next;
}

function statusOf(error: unknown): number {
  return typeof error === "object" && error !== null && "status" in error ? Number(error.status) : 0;
}
