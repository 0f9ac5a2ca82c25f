import { beforeEach, describe, expect, test } from "vitest";
import { churn } from "../../tests/events";
import type { WireEvent } from "@/projection/event";
import { foldAll } from "@/projection/fold";
import { EMPTY_GRAPH, type Graph } from "@/projection/graph";
import { NOTHING, type Snapshot, type Stretch } from "@/projection/store";
import { ApiError, type Page } from "./http";
import { BEHIND_MAX, LiveFeed, type LiveState, type Source, STALE_AFTER_MS, type Surroundings } from "./live";

/** A server with a stored log, a browser's connection to it, and a clock: all played by hand. */
class World implements Surroundings {
  stored: WireEvent[] = churn().events.slice();
  pageSize = 5;
  refuseWith: number | null = null;
  online = true;
  readonly opened: string[] = [];
  source: (Source & { readyState: number }) | null = null;
  readonly pages: number[] = [];
  /** Position up to which the server has folded. */
  folded = 0;
  windowFrom = 0;
  #frames: (() => void)[] = [];
  #timers: { readonly at: number; readonly task: () => void }[] = [];
  #now = 0;

  open = (url: string): Source => {
    this.opened.push(url);
    this.source = { readyState: 0, onopen: null, onerror: null, onmessage: null, close: () => undefined };
    return this.source;
  };

  snapshot = (at: number | null): Promise<Snapshot> => {
    if (this.refuseWith !== null) return Promise.reject(refused(this.refuseWith));
    const graph = foldAll(this.stored.filter((event) => event.position <= (at ?? this.folded)));
    return Promise.resolve({ ...NOTHING, graph, windowFrom: this.windowFrom });
  };

  page = (after: number): Promise<Page<unknown>> => {
    this.pages.push(after);
    if (this.refuseWith !== null) return Promise.reject(refused(this.refuseWith));
    const items = this.stored.filter((event) => event.position > after).slice(0, this.pageSize);
    const last = items.at(-1)?.position ?? after;
    return Promise.resolve({ items, next: this.stored.some((event) => event.position > last) ? last : null });
  };

  frame = (task: () => void): void => {
    this.#frames.push(task);
  };

  later = (task: () => void, ms: number): (() => void) => {
    const timer = { at: this.#now + ms, task };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((one) => one !== timer);
    };
  };

  isOnline = (): boolean => this.online;

  draw(): void {
    const frames = this.#frames;
    this.#frames = [];
    frames.forEach((task) => task());
  }

  get framesWaiting(): number {
    return this.#frames.length;
  }

  async pass(ms: number): Promise<void> {
    this.#now += ms;
    const due = this.#timers.filter((timer) => timer.at <= this.#now);
    this.#timers = this.#timers.filter((timer) => timer.at > this.#now);
    due.forEach((timer) => timer.task());
    await settled();
  }

  send(event: unknown): void {
    this.source?.onmessage?.({ data: typeof event === "string" ? event : JSON.stringify(event) });
  }
}

function refused(status: number): ApiError {
  return new ApiError({ code: "x", message: "x", status });
}

/** All promises that are already resolved have run. */
async function settled(): Promise<void> {
  for (let n = 0; n < 50; n += 1) await Promise.resolve();
}

let world: World;
let came: WireEvent[];
let batches: number;
let begun: Graph[];
let window: Stretch | null;
let states: LiveState[];
let feed: LiveFeed;

beforeEach(async () => {
  world = new World();
  await begin();
});

async function begin(): Promise<void> {
  came = [];
  begun = [];
  window = null;
  batches = 0;
  states = [];
  feed = new LiveFeed({
    outside: world,
    onBegin: ({ graph }) => begun.push(graph),
    onWindow: (stretch) => {
      window = stretch;
    },
    onEvents: (events) => {
      batches += 1;
      came.push(...events);
    },
    onState: (state) => states.push(state),
  });
  feed.start();
  await settled();
}

function next(): WireEvent {
  const last = world.stored.at(-1);
  if (last === undefined) throw new Error("the world has no events");
  const event = { ...last, position: last.position + 1, seq: last.seq + 1 };
  world.stored.push(event);
  return event;
}

test("what is stored comes page by page, then the stream goes on right after it, one batch per frame", () => {
  world.source?.onopen?.();
  world.send(next());
  world.send(next());
  world.draw();

  expect(came).toEqual(world.stored);
  expect(batches).toBe(1);
  expect(world.opened).toEqual([`/api/v1/events?after=${world.stored.length - 2}`]);
  expect(states).toEqual(["live"]);
});

test("it begins with what the server has folded, and reads what was before once it is live", async () => {
  world = new World();
  world.folded = 12;
  await begin();

  expect(begun).toEqual([foldAll(world.stored.slice(0, 12))]);
  expect(world.pages[0]).toBe(12);
  expect(window).toBeNull();
  world.source?.onopen?.();
  await settled();
  world.draw();

  expect(came).toEqual(world.stored.slice(12));
  expect(window).toEqual({ base: EMPTY_GRAPH, events: world.stored.slice(0, 15), upTo: 12 });
});

test("what was before begins at the window of a long log, with the state that it stands on", async () => {
  world = new World();
  world.folded = 12;
  world.windowFrom = 6;
  await begin();
  world.source?.onopen?.();
  await settled();

  expect(window?.base).toEqual(foldAll(world.stored.slice(0, 6)));
  expect(window?.events[0]).toEqual(world.stored[6]);
});

test("whoever is far behind begins anew instead of folding it all", async () => {
  world.source?.onopen?.();
  for (let n = 0; n <= BEHIND_MAX; n += 1) next();
  world.pageSize = 1000;
  world.folded = world.stored.length;
  feed.stop();
  feed.start();
  for (let n = 0; n < 20; n += 1) await settled();

  expect(begun.at(-1)?.position).toBe(world.stored.length);
  expect(world.opened.at(-1)).toBe(`/api/v1/events?after=${world.stored.length}`);
});

test("an event that comes twice is taken once", () => {
  const event = next();
  world.send(event);
  world.send(event);
  world.send(world.stored[0]);
  world.draw();

  expect(came).toEqual(world.stored);
});

describe("a broken connection", () => {
  beforeEach(() => {
    world.source?.onopen?.();
  });

  test("is left to the browser while it reconnects by itself", async () => {
    if (world.source) world.source.readyState = 0;
    world.source?.onerror?.();
    await world.pass(10_000);
    expect(states.at(-1)).toBe("reconnecting");
    expect(world.opened).toHaveLength(1);

    world.source?.onopen?.();
    expect(states.at(-1)).toBe("live");
  });

  test("that is closed for good is opened again after the newest event that came", async () => {
    const missed = next();
    if (world.source) world.source.readyState = 2;
    world.source?.onerror?.();
    next();
    await world.pass(500);
    world.source?.onopen?.();
    world.draw();

    expect(world.opened.at(-1)).toBe(`/api/v1/events?after=${missed.position + 1}`);
    expect(came).toEqual(world.stored);
    expect(states).toEqual(["live", "reconnecting", "live"]);
  });

  test("that stays broken makes what is shown stale, and goes on trying", async () => {
    world.refuseWith = 0;
    if (world.source) world.source.readyState = 2;
    world.source?.onerror?.();
    const pagesBefore = world.pages.length;
    for (let n = 0; n < 6; n += 1) await world.pass(STALE_AFTER_MS);

    expect(states.at(-1)).toBe("stale");
    expect(world.pages.length).toBeGreaterThan(pagesBefore + 3);

    world.refuseWith = null;
    await world.pass(STALE_AFTER_MS);
    world.source?.onopen?.();
    expect(states.at(-1)).toBe("live");
  });

  test("because the device has no network is offline, and heals when it is back", async () => {
    world.online = false;
    feed.networkChanged();
    expect(states.at(-1)).toBe("offline");

    world.online = true;
    const event = next();
    feed.networkChanged();
    await settled();
    world.source?.onopen?.();
    world.draw();

    expect(came.at(-1)).toEqual(event);
    expect(states.at(-1)).toBe("live");
  });

  test("because nobody is signed in any more ends the feed", async () => {
    world.refuseWith = 401;
    if (world.source) world.source.readyState = 2;
    world.source?.onerror?.();
    await world.pass(500);
    expect(states.at(-1)).toBe("signed_out");

    const pages = world.pages.length;
    await world.pass(60_000);
    expect(world.pages).toHaveLength(pages);
  });
});

test("a message that is no event is passed over, one that is no JSON makes it read again", async () => {
  world.source?.onopen?.();
  world.send({ position: "1; drop table", stream: 7 });
  world.send(next());
  const lost = next();
  world.send("{");
  await settled();
  world.draw();

  expect(came).toEqual(world.stored);
  expect(world.opened.at(-1)).toBe(`/api/v1/events?after=${lost.position}`);
});

test("after stop nothing comes any more, not even what waited; a later start reads it", async () => {
  const before = world.source;
  feed.stop();
  before?.onmessage?.({ data: JSON.stringify(next()) });
  before?.onerror?.();
  await world.pass(60_000);
  world.draw();
  expect(came).toEqual([]);
  expect(states).toEqual([]);

  feed.start();
  await settled();
  world.draw();
  expect(came).toEqual(world.stored);
});

test("before anything has been read nothing is said to be old, however long nobody answers", async () => {
  const late = new World();
  const said: LiveState[] = [];
  const graphs: Graph[] = [];
  late.refuseWith = 503;
  const first = new LiveFeed({
    outside: late,
    onBegin: ({ graph }) => graphs.push(graph),
    onWindow: () => undefined,
    onEvents: () => undefined,
    onState: (state) => said.push(state),
  });
  first.start();
  await settled();
  await late.pass(STALE_AFTER_MS);
  expect(said).toEqual(["waiting"]);

  late.refuseWith = null;
  await late.pass(10_000);
  late.source?.onopen?.();
  expect(said).toEqual(["waiting", "live"]);
  expect(graphs).toHaveLength(1);
});
