import { expect, test } from "vitest";
import { changeWords, type Future, futureOf, pairsOf, type Sources } from "./future";

function iteration(n: number, fields: object = {}) {
  return {
    ...{ iteration: n, at_us: n, action: "use_tool", reason: "look", tool: "query_sql", decision: { n } },
    ...{ step: `c${n}/tool/0`, artifact: null, is_error: false, code: "", passed: null, verdict: null },
    ...{ void: "", steering: null },
    ...fields,
  };
}

function sources(iterations: readonly object[] | null, result: unknown = { text: "North." }): Sources {
  const run = { result, total_cost_microusd: 31_000, usage: { input_tokens: 900, output_tokens: 100 } };
  const costs = [
    { key: "c1/decision", cost_microusd: 10_000 },
    { key: "c1/evaluation", cost_microusd: 1_000 },
    { key: "c2/decision", cost_microusd: 20_000 },
    { key: "c22/decision", cost_microusd: 7 },
  ];
  const steps = [
    { key: "c1/decision", kind: "model", status: "completed" },
    { key: "c2/decision", kind: "model", status: "completed" },
  ];
  const task = iterations === null ? null : { iterations, outputs: ["m/report@1"] };
  return { run, costs, steps, task } as unknown as Sources;
}

test("a task's future is its decisions with what each came to and cost", () => {
  const verdict = { criteria: [{ met: true }, { met: false }] };
  const made = { action: "create_artifact", tool: null, artifact: "m/report@1", passed: false, verdict };
  const future = futureOf(sources([iteration(1), iteration(2, made)]));

  expect(future.decisions.map((one) => [one.title, one.result, one.microusd])).toEqual([
    ["use_tool: query_sql", "", 11_000],
    ["create_artifact", "made report, not passed", 20_000],
  ]);
  expect([future.met, future.criteria, future.microusd, future.tokens]).toEqual([1, 2, 31_000, 1000]);
  expect([future.text, future.outputs]).toEqual(["North.", ["m/report@1"]]);
});

test("a run that is no task's is told by its steps", () => {
  const future: Future = futureOf(sources(null, "plain words"));

  expect(future.decisions.map((one) => one.title)).toEqual(["model c1/decision", "model c2/decision"]);
  expect(future.decisions[1]?.microusd).toBe(20_000);
  expect(future.text).toBe("plain words");
});

test("two futures are the same up to where they part, also where one is longer", () => {
  const a = futureOf(sources([iteration(1), iteration(2)]));
  const b = futureOf(sources([iteration(1), iteration(2, { decision: { other: 1 } }), iteration(3)]));

  expect(pairsOf(a, b).map((pair) => [pair.key, pair.isSame, pair.a === null])).toEqual([
    ["1", true, false],
    ["2", false, false],
    ["3", false, true],
  ]);
  const failed = futureOf(sources([iteration(1, { is_error: true, code: "tool_failed" }), iteration(2)]));
  expect(pairsOf(a, failed)[0]?.isSame).toBe(false);
});

test("what was changed is told in words, whatever was stored", () => {
  expect(changeWords({ model: "big", "prompts/a@3": "prompts/a@4" })).toBe(
    "model big, prompts/a@3 replaced by prompts/a@4",
  );
  const axes = { x: ["focused", "exploratory"], y: ["terse", "thorough"] };
  expect(changeWords({ steering: { xy: { x: 0.75, y: 0.2 }, axes } })).toBe(
    "steering, exploratory 0.75 · thorough 0.20",
  );
  expect(changeWords({ steering: { xy: [], axes: null } })).toBe("another steering");
  expect([changeWords(null), changeWords({}), changeWords("[erased]")]).toEqual(["", "", "[erased]"]);
});
