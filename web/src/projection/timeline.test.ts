import { describe, expect, test } from "vitest";
import { churn, History } from "../../tests/events";
import { foldAll } from "../../tests/fold";
import { bucketed, forkPoints, indexAt, marksOf, nextMark } from "./timeline";
import { compareRuns, historyOf, runTree } from "./timelineRuns";
import { eventAt, eventsOfStep, runSteps } from "./timelineSteps";

describe("the line of time", () => {
  const { events } = churn();
  const marks = marksOf(events);

  test("has a mark for decisions, made artifacts, approvals and failures, not for plumbing", () => {
    expect(marks.map((mark) => [events[mark.index]?.kind, mark.lane])).toEqual([
      ["approval.requested", "approval"],
      ["approval.given", "approval"],
      ["decision.taken", "decision"],
      ["artifact.written", "artifact"],
    ]);
  });

  test("a task that was not done and a refused call are failures; steering and notes have a row", () => {
    const history = new History()
      .add("run:r", "task.ended", { status: "failed" })
      .add("run:r", "tool.refused", {})
      .add("artifact:a/steering", "artifact.written", { kind: "steering", version: 1 })
      .add("artifact:a/steering", "artifact.written", { kind: "steering", version: 2 })
      .add("run:r", "note.injected", {});

    expect(marksOf(history.events).map((mark) => mark.lane)).toEqual([
      "failure",
      "failure",
      "steering",
      "steering",
    ]);
  });

  test("a position between two events is that of the one before it", () => {
    const some = events.filter((event) => event.position % 3 === 0);

    expect([2, 3, 5, 6, 1e9].map((position) => indexAt(some, position))).toEqual([
      -1,
      0,
      0,
      1,
      some.length - 1,
    ]);
  });

  test("marks that would lie on each other are one, in whatever number they come", () => {
    const many = Array.from({ length: 10_000 }, (_, index) => ({
      index,
      position: index + 1,
      lane: "decision" as const,
    }));
    const buckets = bucketed(many, many.length, 200);

    expect(buckets).toHaveLength(200);
    expect(buckets.reduce((sum, bucket) => sum + bucket.count, 0)).toBe(10_000);
  });

  test("one goes from mark to mark in both directions", () => {
    const [first, second] = marks;
    expect(nextMark(marks, -1, true)).toBe(first);
    expect(nextMark(marks, first?.index ?? 0, true)).toBe(second);
    expect(nextMark(marks, second?.index ?? 0, false)).toBe(first);
    expect(nextMark(marks, 0, false)).toBeUndefined();
  });

  test("a fork parts at the run's newest event so far, before its end", () => {
    const points = forkPoints(events, events.length - 1);

    expect(points[0]).toMatchObject({ runId: "churn/figures", kind: "task.ended" });
    const decided = events.findIndex((event) => event.kind === "decision.taken");
    expect(forkPoints(events, decided)[0]).toEqual({
      runId: "churn/figures",
      seq: events[decided]?.seq,
      kind: "decision.taken",
      step: "c1/decision",
    });
    expect(forkPoints(events, 0)).toEqual([]);
  });
});

describe("runs", () => {
  test("are a tree, each with the cost of all below it", () => {
    const lines = runTree(foldAll(churn().events));

    expect(lines.map((line) => [line.run.id, line.depth, line.microusd])).toEqual([
      ["churn", 0, 12_000],
      ["churn/figures", 1, 12_000],
    ]);
  });

  const origin = new History()
    .add("run:a", "run.started", { loop: "task" })
    .add("run:a", "step.completed", { key: "one", result: "b:1" })
    .add("run:a", "step.completed", { key: "two", result: "b:2" })
    .add("run:b", "run.forked", { origin: "a", at: 2 })
    .add("run:b", "step.completed", { key: "two", result: "b:other" })
    .add("run:b", "step.completed", { key: "three", result: "b:3" });

  test("a fork's history begins with what it shares", () => {
    const history = historyOf(origin.events, "b");

    expect(history.map((one) => [one.runId, one.event.seq])).toEqual([
      ["a", 1],
      ["a", 2],
      ["b", 1],
      ["b", 2],
      ["b", 3],
    ]);
  });

  test("two runs part where they first differ; the same steps stand beside each other", () => {
    const { lines, partAt } = compareRuns(historyOf(origin.events, "a"), historyOf(origin.events, "b"));

    expect(lines.map((line) => [line.how, line.a?.event.data["key"], line.b?.event.data["key"]])).toEqual([
      ["shared", undefined, undefined],
      ["shared", "one", "one"],
      ["different", "two", "two"],
      ["different", undefined, "three"],
    ]);
    expect(partAt).toBe(2);
    expect(compareRuns(historyOf(origin.events, "a"), historyOf(origin.events, "a")).partAt).toBeNull();
  });

  test("another run that did the same is equal, whatever it took", () => {
    const twins = new History()
      .add("run:a", "tool.completed", { key: "t", result: "b:1", ms: 3 })
      .add("run:b", "tool.completed", { key: "t", result: "b:1", ms: 9 });

    const { lines } = compareRuns(historyOf(twins.events, "a"), historyOf(twins.events, "b"));
    expect(lines.map((line) => line.how)).toEqual(["equal"]);
  });

  test("steps are shown as they stood at the moment one looks at", () => {
    const step = (key: string, requested: number, completed: number | null) => ({
      key,
      kind: "model",
      status: completed === null ? "requested" : "completed",
      requested_seq: requested,
      completed_seq: completed,
    });
    const steps = [step("one", 2, 2), step("two", 3, 9), step("later", 10, 11)];
    const cost = (key: string) => ({
      key,
      input_tokens: 5,
      output_tokens: 1,
      cost_microusd: 7,
      price_known: true,
    });

    expect(
      runSteps(steps, [cost("one"), cost("two")], origin.events.slice(0, 3), "a").map((line) => [
        line.key,
        line.status,
        line.microusd,
      ]),
    ).toEqual([
      ["one", "completed", 7],
      ["two", "requested", null],
    ]);
    expect(eventsOfStep(origin.events, "b", "two").map((event) => event.position)).toEqual([5]);
    expect(eventAt(origin.events, 3)?.data["key"]).toBe("two");
    expect(eventAt(origin.events, 99)).toBeUndefined();
  });
});
