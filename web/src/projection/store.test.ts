import { expect, test, vi } from "vitest";
import { churn, History } from "../../tests/events";
import { foldAll } from "./fold";
import { CHECKPOINT_EVERY, EventLog, NOTHING } from "./store";

function long(count: number): History {
  const history = churn();
  for (let n = history.events.length; n < count; n += 1) {
    history.add("run:churn/figures", "model.completed", { key: `k${n}`, cost: 1, input_tokens: n });
  }
  return history;
}

test("every past position folds to what it was then", () => {
  const { events } = long(CHECKPOINT_EVERY * 3 + 77);
  const log = new EventLog();
  for (let start = 0; start < events.length; start += 333) log.append(events.slice(start, start + 333));

  expect(log.graph).toEqual(foldAll(events));
  for (const position of [
    0,
    1,
    12,
    CHECKPOINT_EVERY - 1,
    CHECKPOINT_EVERY,
    CHECKPOINT_EVERY + 1,
    1300,
    events.length,
    10_000,
  ]) {
    expect(log.foldTo(position)).toEqual(foldAll(events.slice(0, position)));
    expect(log.events(position)).toEqual(events.slice(0, position));
  }
});

test("an event that came before is left out, and one batch tells listeners once", () => {
  const { events } = churn();
  const log = new EventLog();
  const listener = vi.fn();
  log.subscribe(listener);

  log.append(events);
  log.append(events.slice(3, 9));

  expect(log.events()).toEqual(events);
  expect(listener).toHaveBeenCalledTimes(1);
});

test("a long history is bounded, its sums are kept, and time travel begins where events are kept", () => {
  const { events } = long(5000);
  const log = new EventLog({ eventsMax: 2000 });
  for (let start = 0; start < events.length; start += 100) log.append(events.slice(start, start + 100));

  expect(log.events().length).toBeLessThanOrEqual(2000);
  expect(log.graph).toEqual(foldAll(events));
  expect(log.earliest).toBeGreaterThan(0);
  expect(log.foldTo(log.earliest + 700)).toEqual(foldAll(events.slice(0, log.earliest + 700)));
  expect(log.foldTo(1).position).toBe(log.earliest);
});

test("a log that was cleared begins again at the first position", () => {
  const log = new EventLog();
  log.append(churn().events);
  log.clear();
  log.append(churn().events);

  expect(log.graph).toEqual(foldAll(churn().events));
});

test("it goes on from a snapshot, and what was before is added when it comes", () => {
  const { events } = long(1600);
  const log = new EventLog();
  log.begin({ ...NOTHING, graph: foldAll(events.slice(0, 900)) });
  log.append(events.slice(900, 1500));

  expect(log.graph).toEqual(foldAll(events.slice(0, 1500)));
  expect(log.events()).toEqual(events.slice(900, 1500));
  expect(log.earliest).toBe(900);

  let told = 0;
  log.subscribe(() => (told += 1));
  log.prepend({ base: foldAll(events.slice(0, 300)), events: events.slice(300, 1000), upTo: 900 });
  log.append(events.slice(1500));

  expect(told).toBe(2);
  expect(log.events()).toEqual(events.slice(300));
  expect(log.earliest).toBe(300);
  for (const position of [300, 301, 899, 900, 901, 1499, 1500, 1600])
    expect(log.foldTo(position)).toEqual(foldAll(events.slice(0, position)));
});

test("a stretch that does not end where the events begin is not taken", () => {
  const { events } = long(400);
  const log = new EventLog();
  log.begin({ ...NOTHING, graph: foldAll(events.slice(0, 100)) });
  log.prepend({ base: foldAll(events.slice(0, 50)), events: events.slice(50, 90), upTo: 90 });

  expect(log.events()).toEqual([]);
  expect(log.earliest).toBe(100);
});
