import { isWireEvent, type WireEvent } from "@/projection/event";
import { address, type Page } from "./http";

/**
 * `live`: events arrive as they happen. `loading`: what is stored is being read. `reconnecting`: the
 * connection broke a moment ago. `stale`: it broke long ago, so what is shown is old. `offline`: this
 * device has no network. `signed_out`: the server wants a new sign-in.
 */
export type LiveState = "loading" | "live" | "reconnecting" | "stale" | "offline" | "signed_out";

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
  page(after: number, signal: AbortSignal): Promise<Page<unknown>>;
  /** Runs `task` before the next picture is drawn (or soon, while the page is hidden). */
  frame(task: () => void): void;
  later(task: () => void, ms: number): () => void;
  isOnline(): boolean;
}

const CLOSED = 2;
export const PAGE_EVENTS = 500;
export const STALE_AFTER_MS = 15_000;
const RETRY_MS = [500, 1000, 2000, 5000, 10_000];

/**
 * The events of this tenant, from a position on, each once and in order, over broken connections.
 * First the stored ones page by page, then the stream; `onEvents` gets one batch per frame.
 */
export class LiveFeed {
  readonly #outside: Surroundings;
  readonly #onEvents: (events: readonly WireEvent[]) => void;
  readonly #onState: (state: LiveState) => void;
  #position: number;
  /** Position of the newest event that was handed out. */
  #delivered: number;
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
    readonly after?: number;
    readonly outside: Surroundings;
    readonly onEvents: (events: readonly WireEvent[]) => void;
    readonly onState: (state: LiveState) => void;
  }) {
    this.#position = options.after ?? 0;
    this.#delivered = this.#position;
    this.#outside = options.outside;
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
      await this.#catchUp(generation);
    } catch (error) {
      if (generation !== this.#generation) return;
      if (statusOf(error) === 401) this.#signedOut();
      else this.#broken(true);
      return;
    }
    if (generation === this.#generation) this.#listen(generation);
  }

  async #catchUp(generation: number): Promise<void> {
    let after = this.#position;
    for (;;) {
      this.#abort = new AbortController();
      const page = await this.#outside.page(after, this.#abort.signal);
      if (generation !== this.#generation) return;
      page.items.forEach((item) => this.#take(item));
      const next = page.next === null ? null : Number(page.next);
      if (next === null || !Number.isSafeInteger(next) || next <= after) return;
      after = next;
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
    if (!this.#outside.isOnline()) this.#setState("offline");
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

function statusOf(error: unknown): number {
  return typeof error === "object" && error !== null && "status" in error ? Number(error.status) : 0;
}
