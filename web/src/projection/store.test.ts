import { expect, test, vi } from "vitest";
import { churn, History } from "../../tests/events";
import { foldAll } from "./fold";
import { CHECKPOINT_EVERY, EventLog } from "./store";

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
