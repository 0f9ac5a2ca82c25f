import { expect, test } from "vitest";
import { History } from "../../tests/events";
import { snapshotOf } from "../../tests/fold";
import { tickAfter } from "./pulse";

function newestOf(history: History): ReadonlyMap<string, number> {
  return snapshotOf(history.events).pulse.newest;
}

test("a chat is touched by its own stream and by what becomes of its runs, not by their steps", () => {
  const asked = { branch: "main", run: "tavern/r000001", trigger: "generate" };
  const history = new History().add("session:tavern", "turn.asked", asked);
  const { pulse } = snapshotOf(history.events);
  expect([...pulse.newest]).toEqual([
    ["session:tavern", 1],
    ["sessions", 1],
  ]);
  expect(pulse.asked.get("tavern#main")).toEqual({ run: "tavern/r000001", trigger: "generate" });

  history.add("run:tavern/r000001", "model.completed");
  expect(newestOf(history).get("session:tavern")).toBe(1);
  history.add("run:tavern/r000001", "run.completed");
  expect(newestOf(history).get("session:tavern")).toBe(3);
});

test("a world is touched by its space and by its agents' runs, and counts its ticks", () => {
  const history = new History()
    .add("artifact:x", "artifact.written", {}, { space: "world:m1" })
    .add("world:m1", "tick.passed", { tick: 7, acted: 3 }, { space: "world:m1" });
  expect(newestOf(history).get("world:m1")).toBe(2);
  expect(snapshotOf(history.events).pulse.ticks.get("m1")).toBe(7);

  history.add("run:churn/ann", "run.started");
  expect(newestOf(history).get("world:m1")).toBe(2);
  history.add("run:m1/ann", "run.waiting");
  expect(newestOf(history).get("world:m1")).toBe(4);
});

test("the past of a world is told by its ticks", () => {
  const [one, two] = new History()
    .add("world:m1", "tick.passed", { tick: 1 }, { space: "world:m1" })
    .add("world:m1", "tick.passed", { tick: 2 }, { space: "world:m1" }).events;
  if (one === undefined || two === undefined) throw new Error("two events were added");
  expect(tickAfter([one, two], "m1")).toBe(2);
  expect(tickAfter([one], "m1")).toBe(1);
  expect(tickAfter([one, two], "m2")).toBe(0);
});
