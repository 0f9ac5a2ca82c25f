import { isRunEvent, type RunEvent } from "@/projection/turn";
import { address, ApiError, path } from "./http";

const RETRY_MS = [500, 1000, 2000, 5000, 10_000];

interface TurnStreamOptions {
  readonly chat: string;
  readonly run: string;
  readonly branch: string;
  readonly onEvents: (events: readonly RunEvent[]) => void;
  /** The stream ended with the run, or is refused for good. */
  readonly onEnd: (error: ApiError | null) => void;
  readonly fetch?: typeof globalThis.fetch;
  readonly later?: (task: () => void, ms: number) => () => void;
}

const later = (task: () => void, ms: number): (() => void) => {
  const timer = setTimeout(task, ms);
  return () => clearTimeout(timer);
};

/**
 * The events of one turn as they come, over broken connections: each stored one once, and the reply as it is
 * written. Who begins late gets the text so far first.
 */
export class TurnStream {
  readonly #options: TurnStreamOptions;
  #after = 0;
  #attempt = 0;
  #isOver = false;
  #abort = new AbortController();
  #cancelRetry: (() => void) | null = null;

  constructor(options: TurnStreamOptions) {
    this.#options = options;
  }

  start(): void {
    void this.#read(this.#abort);
  }

  /** Asks again for the text so far, because a piece of it is missing. */
  restart(): void {
    if (this.#isOver) return;
    this.#abort.abort();
    this.#cancelRetry?.();
    this.#abort = new AbortController();
    this.start();
  }

  stop(): void {
    this.#isOver = true;
    this.#abort.abort();
    this.#cancelRetry?.();
  }

  async #read(abort: AbortController): Promise<void> {
    try {
      const body = await this.#open(abort.signal);
      const ended = await this.#take(body, abort.signal);
      if (abort.signal.aborted || this.#isOver) return;
      if (ended) this.#end(null);
      else this.#retry(abort);
    } catch (error) {
      if (abort.signal.aborted || this.#isOver) return;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) this.#end(error);
      else this.#retry(abort);
    }
  }

  async #open(signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const { chat, run, branch } = this.#options;
    const ask = this.#options.fetch ?? globalThis.fetch.bind(globalThis);
    const url = address(`${path("sessions", chat)}/events`, { run_id: run, branch, after: this.#after });
    const response = await ask(url, {
      headers: { Accept: "text/event-stream" },
      credentials: "same-origin",
      signal,
    });
    if (!response.ok || response.body === null) {
      throw new ApiError({
        code: `http_${response.status}`,
        message: "The turn cannot be followed.",
        hint: "Reload the page.",
        status: response.status,
      });
    }
    this.#attempt = 0;
    return response.body;
  }

  /** Whether the run has ended. */
  async #take(body: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<boolean> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    let isOver = false;
    for (;;) {
      const { done, value } = await reader.read();
      if (signal.aborted) return false;
      if (done) return isOver;
      const frames = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = frames.pop() ?? "";
      const events = frames.flatMap(eventsIn);
      for (const event of events) this.#after = Math.max(this.#after, event.seq ?? 0);
      isOver ||= events.some((event) => event.type === "run.finished");
      if (events.length > 0) this.#options.onEvents(events);
    }
  }

  #retry(abort: AbortController): void {
    const wait = RETRY_MS[Math.min(this.#attempt, RETRY_MS.length - 1)] ?? 10_000;
    this.#attempt += 1;
    this.#cancelRetry = (this.#options.later ?? later)(() => {
      if (!abort.signal.aborted) void this.#read(abort);
    }, wait);
  }

  #end(error: ApiError | null): void {
    this.#isOver = true;
    this.#options.onEnd(error);
  }
}

function eventsIn(frame: string): readonly RunEvent[] {
  const data = frame
    .split("\n")
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(5).trimStart())
    .join("\n");
  if (data === "") return [];
  try {
    const event: unknown = JSON.parse(data);
    return isRunEvent(event) ? [event] : [];
  } catch {
    return [];
  }
}
