import { beforeEach, describe, expect, test } from "vitest";
import { churn } from "../../tests/events";
import type { WireEvent } from "@/projection/event";
import { EMPTY_GRAPH, type Graph } from "@/projection/graph";
import { NOTHING, type Snapshot, type Stretch } from "@/projection/store";
import { ApiError, type Page } from "./http";
import { LiveFeed, type LiveState, type Source, STALE_AFTER_MS, type Surroundings } from "./live";

/** A server with a stored log, a browser's connection to it, and a clock: all played by hand. */
class World implements Surroundings {
  stored: WireEvent[] = churn().events.slice();
  pageSize = 5;
  refuseWith: number | null = null;
  online = true;
  readonly opened: string[] = [];
  source: (Source & { readyState: number }) | null = null;
  checks = 0;
  windowFrom = 0;
  #frames: (() => void)[] = [];
  #timers: { readonly at: number; readonly task: () => void }[] = [];
  #now = 0;

  open = (url: string): Source => {
    this.opened.push(url);
    this.source = { readyState: 0, onopen: null, onerror: null, onmessage: null, close: () => undefined };
    return this.source;
  };

  snapshot = (): Promise<Snapshot> => {
    if (this.refuseWith !== null) return Promise.reject(refused(this.refuseWith));
    const graph = { ...EMPTY_GRAPH, position: this.head };
    return Promise.resolve({ ...NOTHING, graph, windowFrom: this.windowFrom });
  };

  page = (after: number): Promise<Page<unknown>> => {
    const items = this.stored.filter((event) => event.position > after).slice(0, this.pageSize);
    const last = items.at(-1)?.position ?? after;
    return Promise.resolve({ items, next: last < this.head ? last : null });
  };

  check = (): Promise<unknown> => {
    this.checks += 1;
    return this.refuseWith === null ? Promise.resolve({}) : Promise.reject(refused(this.refuseWith));
  };

  get head(): number {
    return this.stored.at(-1)?.position ?? 0;
  }

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

  async pass(ms: number): Promise<void> {
    this.#now += ms;
    const due = this.#timers.filter((timer) => timer.at <= this.#now);
    this.#timers = this.#timers.filter((timer) => timer.at > this.#now);
    due.forEach((timer) => timer.task());
    await settled();
  }

  /** Opens the connection and says what has changed since its address, which is the first message of each. */
  begin(): void {
    this.source?.onopen?.();
    this.send(this.since(Number(this.opened.at(-1)?.split("=")[1])));
  }

  /** The message that brings a page from a position to now. */
  since(after: number): unknown {
    const items = this.stored.filter((event) => event.position > after);
    const none = { runs: [], agents: [], tasks: [], artifacts: [], membranes: [], missions: [], edges: [] };
    const graph = { position: this.head, at_us: 0, events: 0, window_from: 0, ...none, approvals: [] };
    return { items, graph: { ...graph, costs: {}, pulse: {} } };
  }

  send(message: unknown): void {
    this.source?.onmessage?.({ data: typeof message === "string" ? message : JSON.stringify(message) });
  }

  /** One more event, which has come as far as the log. */
  next(): WireEvent {
    const last = this.stored.at(-1);
    if (last === undefined) throw new Error("the world has no events");
    const event = { ...last, position: last.position + 1, seq: last.seq + 1 };
    this.stored.push(event);
    return event;
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
/** What was stored before the page began. */
let before: readonly WireEvent[];
let came: WireEvent[];
let graphs: Graph[];
let begun: number[];
let window: Stretch | null;
let states: LiveState[];
let feed: LiveFeed;

beforeEach(async () => {
  world = new World();
  await begin();
});

async function begin(): Promise<void> {
  before = world.stored.slice();
  came = [];
  graphs = [];
  begun = [];
  window = null;
  states = [];
  feed = new LiveFeed({
    outside: world,
    onBegin: ({ graph }) => begun.push(graph.position),
    onWindow: (stretch) => {
      window = stretch;
    },
    onChange: ({ graph }, events) => {
      graphs.push(graph);
      came.push(...events);
    },
    onState: (state) => states.push(state),
  });
  feed.start();
  await settled();
}

const address = (position: number) => `/api/v1/graph/stream?after=${position}`;

test("it begins with what the server has, then what changes comes, one batch per frame", () => {
  const { head } = world;
  expect(begun).toEqual([head]);
  expect(states).toEqual([]);
  const first = world.next();
  world.begin();
  const second = world.next();
  world.send(world.since(first.position));
  world.draw();

  expect(came).toEqual([first, second]);
  expect(graphs.map(({ position }) => position)).toEqual([second.position]);
  expect(world.opened).toEqual([address(head)]);
  expect(states).toEqual(["live"]);
});

test("once it is live, the events of the window before it are read", async () => {
  world = new World();
  world.windowFrom = 6;
  await begin();
  expect(window).toBeNull();
  world.begin();
  await settled();

  expect(window).toEqual({ from: 6, upTo: world.head, events: before.slice(6) });
});

test("a page that is too far behind is told so, and begins anew", async () => {
  world.begin();
  world.next();
  world.send({ anew: true });
  await settled();
  world.begin();

  expect(begun).toEqual([world.head - 1, world.head]);
  expect(world.opened.at(-1)).toBe(address(world.head));
  expect(states).toEqual(["live"]);
});

test("a message that comes twice is taken once", () => {
  world.next();
  world.begin();
  world.begin();
  world.draw();

  expect(came).toHaveLength(1);
});

describe("a broken connection", () => {
  beforeEach(() => world.begin());

  test("is left to the browser while it reconnects by itself", async () => {
    const { head } = world;
    world.source?.onerror?.();
    await world.pass(10_000);
    expect(states.at(-1)).toBe("reconnecting");
    expect(world.opened).toHaveLength(1);

    world.next();
    world.send(world.since(head));
    world.draw();
    expect(came).toHaveLength(1);
    expect(states.at(-1)).toBe("live");
  });

  test("that is closed for good is opened again after the newest change that came", async () => {
    const missed = world.next();
    if (world.source) world.source.readyState = 2;
    world.source?.onerror?.();
    await world.pass(500);
    world.begin();
    world.draw();

    expect(world.opened.at(-1)).toBe(address(missed.position - 1));
    expect(came).toEqual([missed]);
    expect(begun).toHaveLength(1);
    expect(states).toEqual(["live", "reconnecting", "live"]);
  });

  test("that stays broken makes what is shown stale, and goes on trying", async () => {
    world.refuseWith = 0;
    if (world.source) world.source.readyState = 2;
    world.source?.onerror?.();
    for (let n = 0; n < 6; n += 1) await world.pass(STALE_AFTER_MS);

    expect(states.at(-1)).toBe("stale");
    expect(world.checks).toBeGreaterThan(3);

    world.refuseWith = null;
    await world.pass(STALE_AFTER_MS);
    world.begin();
    expect(states.at(-1)).toBe("live");
  });

  test("because the device has no network is offline, and heals when it is back", async () => {
    world.online = false;
    feed.networkChanged();
    expect(states.at(-1)).toBe("offline");

    world.online = true;
    const event = world.next();
    feed.networkChanged();
    await settled();
    world.begin();
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

    await world.pass(60_000);
    expect(world.checks).toBe(1);
    expect(world.opened).toHaveLength(1);
  });
});

test("a message of another kind is passed over, one that is no JSON makes it ask again", async () => {
  const { head } = world;
  world.begin();
  world.send({ position: "1; drop table", items: 7 });
  world.send(null);
  world.next();
  world.send("{");
  await settled();
  world.begin();
  world.draw();

  expect(came).toHaveLength(1);
  expect(world.opened.at(-1)).toBe(address(head));
});

test("after stop nothing comes any more, not even what waited; a later start asks for that again", async () => {
  const event = world.next();
  const source = world.source;
  world.begin();
  feed.stop();
  source?.onmessage?.({ data: JSON.stringify(world.since(0)) });
  source?.onerror?.();
  await world.pass(60_000);
  world.draw();
  expect(came).toEqual([]);
  expect(states).toEqual(["live"]);

  feed.start();
  await settled();
  world.begin();
  world.draw();
  expect(came).toEqual([event]);
});

test("before anything has been read nothing is said to be old, however long nobody answers", async () => {
  world = new World();
  world.refuseWith = 503;
  await begin();
  await world.pass(STALE_AFTER_MS);
  expect(states).toEqual(["waiting"]);

  world.refuseWith = null;
  await world.pass(10_000);
  world.begin();
  expect(states).toEqual(["waiting", "live"]);
  expect(begun).toHaveLength(1);
});
