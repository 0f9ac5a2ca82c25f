import { expect, test } from "vitest";
import type { WireEvent } from "./event";
import { beat, STILL, tickAfter } from "./pulse";

let position = 0;
function event(stream: string, kind: string, data: Record<string, unknown> = {}, space = "main"): WireEvent {
  position += 1;
  return { position, stream, space, seq: 1, kind, at_us: 1, actor: "a", cause: null, data, texts: {} };
}

test("a chat is touched by its own stream and by what becomes of its runs, not by their steps", () => {
  const asked = event("session:tavern", "turn.asked", {
    branch: "main",
    run: "tavern/r000001",
    trigger: "generate",
  });
  const first = beat(STILL, [asked]);
  expect(first.newest.get("session:tavern")).toBe(asked.position);
  expect(first.newest.get("sessions")).toBe(asked.position);
  expect(first.asked.get("tavern#main")).toEqual({ run: "tavern/r000001", trigger: "generate" });

  expect(beat(first, [event("run:tavern/r000001", "model.completed")])).toBe(first);
  const ended = event("run:tavern/r000001", "run.completed");
  expect(beat(first, [ended]).newest.get("session:tavern")).toBe(ended.position);
});

test("a world is touched by its space and by its agents' runs, and counts its ticks", () => {
  const passed = event("world:m1", "tick.passed", { tick: 7, acted: 3 }, "world:m1");
  const pulse = beat(STILL, [event("artifact:x", "artifact.written", {}, "world:m1"), passed]);
  expect(pulse.newest.get("world:m1")).toBe(passed.position);
  expect(pulse.ticks.get("m1")).toBe(7);

  const held = event("run:m1/ann", "run.waiting", {});
  expect(beat(pulse, [held]).newest.get("world:m1")).toBe(held.position);
  expect(beat(pulse, [event("run:churn/ann", "run.started")])).toBe(pulse);
});

test("events that were folded in before change nothing", () => {
  const made = event("world:m2", "world.made", {}, "world:m2");
  const pulse = beat(STILL, [made]);
  expect(beat(pulse, [made])).toBe(pulse);
});

test("the past of a world is told by its ticks", () => {
  const one = event("world:m1", "tick.passed", { tick: 1 }, "world:m1");
  const two = event("world:m1", "tick.passed", { tick: 2 }, "world:m1");
  expect(tickAfter([one, two], "m1")).toBe(2);
  expect(tickAfter([one], "m1")).toBe(1);
  expect(tickAfter([one, two], "m2")).toBe(0);
});
