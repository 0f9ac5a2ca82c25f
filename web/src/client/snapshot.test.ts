import { expect, test } from "vitest";
import { churn } from "../../tests/events";
import { foldAll, snapshotOf } from "../../tests/fold";
import { NOTHING_SPENT } from "@/projection/graph";
import { readRows } from "./snapshot";
import type { Shape } from "./types";

type Body = Shape<"GraphOut">;

const NONE = { microusd: 0, input_tokens: 0, cached_tokens: 0, output_tokens: 0, unpriced: 0, calls: 0 };
/** As the server sends it, with the fields that matter here. */
const BODY = {
  position: 7,
  at_us: 5,
  events: 6,
  window_from: 2,
  runs: [
    {
      id: "m/t",
      started_us: 1,
      last_us: 4,
      waits: ["k"],
      spend: { ...NONE, input_tokens: 3 },
      failed_tries: [],
    },
  ],
  agents: [],
  tasks: [{ id: "m/t", mission: "m", depends_on: ["m/s"], marks: [{ seq: 2, iteration: 1 }] }],
  artifacts: [],
  membranes: [{ id: "m/room", mission: "m", name: "Room", members: ["m/ada"], shared: ["m/text"] }],
  missions: [],
  edges: [],
  approvals: [
    { id: "m#k", run_id: "m", key: "k", question: "?", details: { as_is: 1 }, asked_us: 2, expires_us: null },
  ],
  costs: { total: NONE, by_model: { some_model: NONE }, held: { "m k": 5 }, caps: { "agent:my_agent": 9 } },
  pulse: { newest: { "session:my_chat": 3 }, asked: { "c#main": { run: "c/r000001", trigger: "generate" } } },
};

test("rows of the server become the page's own, by id; names that people gave stay as they are", () => {
  const { graph, pulse, windowFrom } = readRows(BODY as unknown as Body);

  expect([graph.position, graph.atUs, graph.events, windowFrom]).toEqual([7, 5, 6, 2]);
  expect(graph.runs.get("m/t")).toMatchObject({ startedUs: 1, lastUs: 4, waits: new Set(["k"]) });
  expect(graph.runs.get("m/t")?.spend).toEqual({ ...NOTHING_SPENT, inputTokens: 3 });
  expect(graph.tasks.get("m/t")).toMatchObject({ dependsOn: ["m/s"], marks: [{ seq: 2, iteration: 1 }] });
  expect(graph.membranes.get("m/room")).toMatchObject({
    members: new Set(["m/ada"]),
    shared: new Set(["m/text"]),
  });
  expect(graph.approvals.get("m#k")?.details).toEqual({ as_is: 1 });
  expect([...graph.costs.byModel]).toEqual([["some_model", NOTHING_SPENT]]);
  expect([...graph.costs.caps, ...graph.costs.held]).toEqual([
    ["agent:my_agent", 9],
    ["m k", 5],
  ]);
  expect(pulse.newest.get("session:my_chat")).toBe(3);
  expect(pulse.asked.get("c#main")).toEqual({ run: "c/r000001", trigger: "generate" });
});

test("rows that have changed take the place of those before, and what has not changed keeps its identity", () => {
  const before = snapshotOf(churn().events);
  const run = { ...BODY.runs[0], id: "churn", status: "paused" };
  const gone = { ...BODY.costs, by_model: {}, held: {}, caps: { tenant: null } };
  const nothing = { ...BODY, runs: [run], tasks: [], membranes: [], approvals: [], costs: gone };
  const copy = structuredClone(before);

  const { graph, pulse } = readRows({ ...nothing, position: 99 } as unknown as Body, before);

  expect(graph.position).toBe(99);
  expect(graph.runs.get("churn")?.status).toBe("paused");
  expect(graph.runs.get("churn/figures")).toBe(before.graph.runs.get("churn/figures"));
  expect(graph.tasks).toBe(before.graph.tasks);
  expect(before.graph.costs.caps.has("tenant")).toBe(true);
  expect(graph.costs.caps.has("tenant")).toBe(false);
  expect(pulse.newest.get("session:my_chat")).toBe(3);
  expect(before).toEqual(copy);
  expect(before.graph).toEqual(foldAll(churn().events));
});
