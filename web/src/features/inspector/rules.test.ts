import { describe, expect, test } from "vitest";
import type { Run, Task } from "@/projection/graph";
import { churn } from "../../../tests/events";
import { foldAll } from "../../../tests/fold";
import { byModel } from "./agent/costs";
import { heldBy } from "./agent/HeldByGoal";
import { toolWords } from "./agent/toolWords";
import { formOf, placeOf, readCsv } from "./artifact/forms";
import { usesOf } from "./artifact/use";
import { openRunsOf, taskCan } from "./commands";
import { agentRevision } from "./revisions";
import { versionOf } from "./state";
import { budgetEnd, budgetWords, byteStops, bytesWords, micro, usdOf } from "./steering/amounts";
import { moved, placeAt } from "./steering/place";
import { effectWords, lastIteration } from "./steering/words";
import { iterationsOf } from "./task/iterations";
import { readVerdict } from "./task/verdict";
import { taskSays } from "./task/words";

const graph = foldAll(churn().events);
const FIGURES = graph.tasks.get("churn/figures") as Task;

describe("the puck", () => {
  test("moves by arrows, farther with Shift, and never beyond its ends", () => {
    expect(moved({ x: 0.5, y: 0.5 }, "ArrowRight", false)).toEqual({ x: 0.55, y: 0.5 });
    expect(moved({ x: 0.5, y: 0.5 }, "ArrowUp", true)).toEqual({ x: 0.5, y: 0.75 });
    expect(moved({ x: 0.98, y: 0.02 }, "ArrowRight", true)).toEqual({ x: 1, y: 0.02 });
    expect(moved({ x: 0.98, y: 0.02 }, "ArrowDown", false)).toEqual({ x: 0.98, y: 0 });
    expect(moved({ x: 0.5, y: 0.5 }, "Tab", false)).toBeNull();
  });

  test("stands where the pointer is, x from the left and y from below", () => {
    const box = { left: 100, top: 50, width: 200, height: 100 };
    expect(placeAt(box, 150, 75)).toEqual({ x: 0.25, y: 0.75 });
    expect(placeAt(box, 0, 500)).toEqual({ x: 0, y: 0 });
  });
});

describe("limits in words", () => {
  test("money is exact, and what is over is said", () => {
    expect(micro("0.60")).toBe(600_000);
    expect(micro("12.000001")).toBe(12_000_001);
    expect(micro(null)).toBeNull();
    expect(usdOf(60)).toBe("0.60");
    expect(budgetWords(600_000, 203_000)).toBe("$0.600, $0.397 left");
    expect(budgetWords(100_000, 203_000)).toBe("$0.100, $0.103 over");
    expect(budgetWords(null, 203_000)).toBe("no limit, $0.203 used");
    expect(budgetEnd(600_000, 203_000)).toBe(100);
    expect(budgetEnd(900_000, 0)).toBe(200);
  });

  test("a size that is none of the stops is a stop of its own", () => {
    expect(byteStops(50_000)).toContain(50_000);
    expect(byteStops(65_536)).toHaveLength(11);
    expect([1_000, 65_536, 1_000_000].map(bytesWords)).toEqual(["1 kB", "65.5 kB", "1 MB"]);
  });

  test("from where on a change counts", () => {
    const one = { agent: "churn/analyst", task: "churn/figures", iteration: 5, is_begun: true };
    const five = () => 5;
    expect(effectWords([one], five)).toBe("Takes effect at iteration 5 of figures.");
    expect(effectWords([{ ...one, iteration: 1, is_begun: false }], five)).toMatch(/which has not begun/);
    expect(effectWords([], five)).toMatch(/as soon as there is a task/);
    expect(effectWords([one, { ...one, agent: "churn/writer", iteration: 2 }], () => null)).toBe(
      "Takes effect for analyst at iteration 5, writer at iteration 2.",
    );
  });

  test("an iteration that can't come is not promised", () => {
    const next = { agent: "churn/analyst", task: "churn/figures", iteration: 5, is_begun: true };
    const tasks = new Map([["churn/figures", { ...FIGURES, iterationsMax: 5, iterationsBefore: 0 }]]);
    const words = (allowed: number, iteration: number) =>
      effectWords([{ ...next, iteration }], lastIteration({ tasks }, allowed));
    expect(words(10, 5)).toMatch(/at iteration 5/);
    expect(words(10, 6)).toMatch(/No iteration of figures is left/);
    expect(words(3, 4)).toMatch(/No iteration of figures is left/);
    expect(effectWords([next, { ...next, iteration: 6 }], lastIteration({ tasks }, 10))).toBe(
      "Takes effect for analyst at iteration 5, analyst if it is allowed more iterations.",
    );
  });
});

test("a tool says why it is off, and is fixed where its own switch would change nothing", () => {
  const tool = { name: "web_fetch", risk: "high", side_effect: true, enabled: false };
  expect(toolWords({ ...tool, enabled: true, why_off: null }, true, true)).toEqual({
    isOn: true,
    why: "high risk, has side effects",
    isFixed: false,
  });
  expect(toolWords({ ...tool, why_off: "switched off by steering" }, false, false)).toEqual({
    isOn: false,
    why: "off: by its switch",
    isFixed: false,
  });
  expect(toolWords({ ...tool, why_off: "switched off by steering" }, true, true)).toMatchObject({
    why: "off: a membrane bars it",
    isFixed: true,
  });
  expect(toolWords({ ...tool, why_off: "not granted to the tenant" }, true, true)).toMatchObject({
    why: "off: not granted to the tenant",
    isFixed: true,
  });
});

describe("a task", () => {
  const says = (fields: Partial<Task>) => taskSays({ ...FIGURES, ...fields }, undefined);

  test("that its agent gave up says why, and speaks of no input", () => {
    const run = { message: "a person denied this call: not now. Missing: data that answers" } as Run;
    const { sentence } = taskSays({ ...FIGURES, status: "blocked", reason: "missing_input" }, run);
    expect(sentence).toContain("a person denied this call");
    expect(sentence).not.toMatch(/An input/);
  });

  test("calls ends of different kinds by different words", () => {
    const words = [
      says({ status: "done" }),
      says({ status: "failed", reason: "max_iterations" }),
      says({ status: "failed", reason: "decision_invalid" }),
      says({ status: "failed", reason: "model_unavailable" }),
      says({ status: "blocked", reason: "missing_input", blockedBy: "sales@1" }),
      says({ status: "cancelled" }),
      says({ status: "active" }),
    ];
    expect(words.map(({ word }) => word)).toEqual([
      "done with evidence",
      "failed by a limit",
      "failed by its decision",
      "failed by an error",
      "blocked",
      "cancelled",
      "active",
    ]);
    expect(words[4]?.sentence).toContain("sales@1");
    expect(words[3]?.sentence).toMatch(/model_unavailable.*Retry it/u);
    expect(says({ status: "failed", reason: "context_too_long" }).sentence).toContain(
      "Ask again with a model",
    );
  });

  test("offers only what would have an effect", () => {
    const can = (fields: Partial<Task>) =>
      (["start", "retry", "cancel"] as const).filter(
        (verb) => taskCan({ ...FIGURES, ...fields }, verb, undefined).ok,
      );
    expect(can({ status: "pending" })).toEqual(["start", "cancel"]);
    expect(can({ status: "pending", agent: "" })).toEqual(["cancel"]);
    expect(can({ status: "failed" })).toEqual(["retry"]);
    expect(can({ status: "done" })).toEqual([]);
  });

  test("shows of a step in the past no verdict that came later", () => {
    const detail = {
      iteration: 1,
      at_us: 1,
      action: "create_artifact",
      reason: "numbers agree",
      tool: null,
      decision: { action: "create_artifact" },
      step: "c1/content",
      artifact: "churn/table@1",
      is_error: false,
      code: "",
      passed: true,
      verdict: { summary: "all", criteria: [{ criterion: "a", met: true, evidence: [] }] },
      void: "",
      steering: null,
    };
    expect(iterationsOf(FIGURES.iterations, [detail])[0]?.verdict.criteria).toHaveLength(1);

    const events = churn().events;
    const at = events.findIndex((event) => event.kind === "task.evaluated");
    const then = foldAll(events.slice(0, at)).tasks.get("churn/figures");
    const [step] = iterationsOf(then?.iterations ?? [], [detail]);
    expect(step).toMatchObject({ passed: null, artifact: "churn/table@1" });
    expect(step?.verdict).toEqual({ summary: "", criteria: [], checks: [], faults: [] });
  });

  test("reads of a verdict only what has the form of one", () => {
    for (const odd of [null, "x", [], { criteria: "many" }, { criteria: [null, 7], checks: {} }])
      expect(readVerdict(odd).summary).toBe("");
    expect(
      readVerdict({ criteria: [{ criterion: "a", met: 1, evidence: [{ ref: "t@1", quote: 5 }] }] }).criteria,
    ).toEqual([{ criterion: "a", met: false, missing: "", evidence: [{ ref: "t@1", quote: "" }] }]);
  });
});

describe("content", () => {
  const text = (content: unknown, fields = {}) =>
    formOf({ id: "m/x", media: "text", content, metadata: {}, ...fields });

  test("is shown by what its maker says, else by its name, else by its look", () => {
    expect(text("# A", { metadata: { media: "markdown" } })).toBe("markdown");
    expect(text("plain", { id: "m/notes.md" })).toBe("markdown");
    expect(text("a,b\n1,2\n3,4\n")).toBe("table");
    expect(text("Dear all, hello\nwe write, to you, today\n")).toBe("text");
    expect(text({}, { media: "json" })).toBe("json");
  });

  test("comma-separated values keep commas and lines within quotes, and have a bound", () => {
    expect(readCsv('a,"b, ""c"""\n"1\n2",3', 10)).toEqual({
      rows: [
        ["a", 'b, "c"'],
        ["1\n2", "3"],
      ],
      isCut: false,
    });
    expect(readCsv("1\n2\n3\n", 2)).toEqual({ rows: [["1"], ["2"]], isCut: true });
  });

  test("quoted words are found whatever white space is between them, and not where they are not", () => {
    const source = "The region with\n  the most is North.";
    expect(source.slice(...(placeOf(source, "with the most") ?? []))).toBe("with\n  the most");
    expect(placeOf(source, "the least")).toBeNull();
    expect(placeOf(source, "  ")).toBeNull();
    expect(versionOf("churn/table@12")).toBe(12);
    expect(versionOf("churn/table")).toBeNull();
  });
});

test("the prompts of an artifact are found by events, those of one step once", () => {
  const events = churn().add("run:other", "context.assembled", {
    key: "c2/decision",
    parts: [{ tag: "shared", src: ["sales@2"] }, { tag: 7 }],
  }).events;

  expect(usesOf(events, "sales").map((use) => [use.runId, use.step, use.ref])).toEqual([
    ["other", "c2/decision", "sales@2"],
    ["churn/figures", "c1", "sales@1"],
  ]);
  expect(usesOf(events, "nothing")).toEqual([]);
});

test("costs by model are the sums of an agent's runs", () => {
  expect(
    byModel(graph, "churn/analyst").map(([model, spend]) => [model, spend.microusd, spend.calls]),
  ).toEqual([["m", 12_000, 1]]);
  expect(byModel(graph, "churn/writer")).toEqual([]);
});

test("a run below a paused one is held by it, unless it is paused itself", () => {
  const events = churn().events;
  const begun = events.findIndex((event) => event.kind === "task.begun") + 1;
  const history = churn();
  history.events.splice(begun);
  const held = foldAll(history.add("run:churn", "run.paused", {}).events);
  const [run] = openRunsOf(held, "churn/analyst");

  expect(run === undefined ? "" : heldBy(held, run)).toBe("churn");
  const both = foldAll(history.add("run:churn/figures", "run.paused", {}).events);
  const [paused] = openRunsOf(both, "churn/analyst");
  expect(paused === undefined ? "x" : heldBy(both, paused)).toBe("");
});

test("what is shown of an agent is read again when its steering changes, and only then", () => {
  const steered = (to: string) =>
    foldAll(
      churn().add(`artifact:${to}/steering`, "artifact.written", {
        id: `${to}/steering`,
        kind: "steering",
        version: 1,
      }).events,
    );
  const before = agentRevision(graph, "churn/analyst");

  expect(agentRevision(steered("churn/analyst"), "churn/analyst")).not.toBe(before);
  expect(agentRevision(steered("churn/writer"), "churn/analyst")).toBe(before);
  expect(agentRevision(steered("churn/study"), "churn/analyst")).not.toBe(before);
});
