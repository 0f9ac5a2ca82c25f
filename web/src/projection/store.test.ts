import { expect, test, vi } from "vitest";
import { History } from "../../tests/events";
import { EMPTY_GRAPH } from "./graph";
import { EventLog, NOTHING, type Snapshot } from "./store";

function long(count: number): History {
  const history = new History();
  for (let n = 0; n < count; n += 1) history.add("run:r", "cycle.completed", { cycle: n });
  return history;
}

function at(position: number): Snapshot {
  return { ...NOTHING, graph: { ...EMPTY_GRAPH, position, events: position } };
}

test("an event that came before is left out, and one batch tells listeners once", () => {
  const { events } = long(12);
  const log = new EventLog();
  const listener = vi.fn();
  log.subscribe(listener);

  log.advance(at(9), events.slice(0, 9));
  log.advance(at(12), events.slice(3));

  expect(log.events()).toEqual(events);
  expect(log.events(5)).toEqual(events.slice(0, 5));
  expect(log.graph).toBe(log.snapshot());
  expect(log.position).toBe(12);
  expect(listener).toHaveBeenCalledTimes(2);
});

test("a long history is bounded, and says where the events that are kept begin", () => {
  const { events } = long(5000);
  const log = new EventLog({ eventsMax: 2000 });
  for (let start = 0; start < events.length; start += 100)
    log.advance(at(start + 100), events.slice(start, start + 100));

  expect(log.events().length).toBeLessThanOrEqual(2000);
  expect(log.events()).toEqual(events.slice(log.earliest));
  expect(log.graph.events).toBe(5000);
});

test("a log that was cleared begins again at the first position", () => {
  const { events } = long(3);
  const log = new EventLog();
  log.advance(at(3), events);
  log.clear();
  expect(log.position).toBe(0);

  log.advance(at(3), events);
  expect(log.events()).toEqual(events);
});

test("it goes on from a snapshot, and what was before is added when it comes", () => {
  const { events } = long(1600);
  const log = new EventLog();
  log.begin(at(900));
  log.advance(at(1500), events.slice(900, 1500));

  expect(log.events()).toEqual(events.slice(900, 1500));
  expect(log.earliest).toBe(900);

  let told = 0;
  log.subscribe(() => (told += 1));
  log.prepend({ from: 300, upTo: 900, events: events.slice(300, 1000) });
  log.advance(at(1600), events.slice(1500));

  expect(told).toBe(2);
  expect(log.events()).toEqual(events.slice(300));
  expect(log.earliest).toBe(300);
});

test("a stretch that does not end where the events begin is not taken", () => {
  const { events } = long(400);
  const log = new EventLog();
  log.begin(at(100));
  log.prepend({ from: 50, upTo: 90, events: events.slice(50, 90) });

  expect(log.events()).toEqual([]);
  expect(log.earliest).toBe(100);
});
