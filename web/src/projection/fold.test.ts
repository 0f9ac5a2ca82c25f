import { describe, expect, test } from "vitest";
import { churn, History } from "../../tests/events";
import { foldAll } from "../../tests/fold";
import { RUN_STATUSES } from "./graph";
import { madeArtifacts, openRoots, vitals, waitingApprovals } from "./vitals";

describe("a goal, from plan to a passed evaluation", () => {
  const graph = foldAll(churn().events);

  test("the task is done, with its iteration, its outputs and who worked on it", () => {
    const task = graph.tasks.get("churn/figures");

    expect(task).toMatchObject({
      status: "done",
      agent: "churn/analyst",
      iteration: 1,
      iterationsMax: 5,
      outputs: ["churn/table@1"],
    });
    expect(task?.iterations).toEqual([
      expect.objectContaining({
        n: 1,
        action: "create_artifact",
        reason: "numbers agree",
        artifact: "churn/table@1",
        passed: true,
        summary: "3 of 3 met",
      }),
    ]);
    expect(graph.tasks.get("churn/letter")).toMatchObject({
      status: "pending",
      dependsOn: ["churn/figures"],
    });
  });

  test("tried again, its limit counts anew", () => {
    const again = churn().add("run:churn/figures", "run.reopened").add("run:churn/figures", "run.reopened");
    const { tasks, agents } = foldAll(again.events);

    expect(tasks.get("churn/figures")).toMatchObject({ iteration: 1, iterationsBefore: 1, iterationsMax: 6 });
    expect(agents.get("churn/analyst")?.iterationsMax).toBe(6);
  });

  test("tried again after a step had failed, its limit counts on", () => {
    const history = churn()
      .add("run:churn/figures", "run.reopened")
      .add("run:churn/figures", "decision.taken", { iteration: 2, action: "read" })
      .add("run:churn/figures", "task.ended", { status: "failed", reason: "model_refused", iterations: 2 })
      .add("run:churn/figures", "run.reopened");

    expect(foldAll(history.events).tasks.get("churn/figures")).toMatchObject({
      iteration: 2,
      iterationsMax: 6,
    });
  });

  test("a fork of a task that was tried again is as far on as the history that it shares", () => {
    const history = churn().add("run:churn/figures", "run.reopened");
    const seqs = history.events.filter((one) => one.stream === "run:churn/figures").map((one) => one.seq);
    const reopened = seqs.at(-1) ?? 0;
    const forked = history
      .add("run:early", "run.forked", { origin: "churn/figures", at: reopened - 1 })
      .add("run:late", "run.forked", { origin: "churn/figures", at: reopened });
    const { tasks } = foldAll(forked.events);

    expect(tasks.get("early")).toMatchObject({ iteration: 1, iterationsMax: 5 });
    expect(tasks.get("late")).toMatchObject({ iteration: 1, iterationsMax: 6 });
  });

  test("the agent shows its iteration and what it cost", () => {
    expect(graph.agents.get("churn/analyst")).toMatchObject({
      name: "analyst",
      version: 1,
      task: "churn/figures",
      action: "create_artifact",
      iteration: 1,
      iterationsMax: 5,
      spend: { microusd: 12_000, inputTokens: 900, cachedTokens: 300, outputTokens: 100, calls: 1 },
    });
  });

  test("an agent with tasks side by side shows one that goes on", () => {
    const history = churn();
    for (const task of ["churn/a", "churn/b"]) {
      history.add(`artifact:${task}`, "task.created", { task, agent: "churn/analyst", max_iterations: 4 });
      history.add(`run:${task}`, "run.started", { agent: "churn/analyst", loop: "task" });
      history.add(`run:${task}`, "task.begun", { agent: "churn/analyst", max_iterations: 4 });
    }
    history.add("run:churn/b", "task.ended", { status: "blocked", reason: "missing_input", iterations: 1 });
    const shown = () => foldAll(history.events).agents.get("churn/analyst");

    expect(shown()).toMatchObject({ runId: "churn/a", task: "churn/a", iteration: 0, iterationsMax: 4 });
    history.add("run:churn/a", "task.ended", { status: "done", iterations: 2 });
    expect(shown()).toMatchObject({ runId: "churn/a" });
  });

  test("edges come from real events", () => {
    const edges = [...graph.edges.values()].map((edge) => `${edge.kind} ${edge.source} > ${edge.target}`);

    expect(edges).toEqual([
      "depends churn/figures > churn/letter",
      "wrote churn/analyst > churn/table",
      "read sales > churn/analyst",
    ]);
  });

  test("the membrane has its members and what they share", () => {
    const membrane = graph.membranes.get("churn/study");

    expect([...(membrane?.members ?? [])]).toEqual(["churn/analyst"]);
    expect([...(membrane?.shared ?? [])]).toEqual(["churn/table"]);
  });

  test("the vitals say what was spent of what", () => {
    expect(vitals(graph)).toMatchObject({
      spentMicrousd: 12_000,
      heldMicrousd: 0,
      budgetMicrousd: 2_000_000,
      waitingApprovals: 0,
      unpriced: 0,
    });
    expect(graph.approvals.get("churn#launch")).toMatchObject({
      question: "Launch it?",
      decision: "approve",
      by: "user:ada",
      details: { tasks: 2 },
    });
  });
});

test("money is held while a call is in flight", () => {
  const until = churn().events.findIndex((event) => event.kind === "model.requested") + 1;

  expect(vitals(foldAll(churn().events.slice(0, until))).heldMicrousd).toBe(41_000);
});

describe("statuses of runs", () => {
  const run = () => new History().add("run:r", "run.started", { agent: "a" });
  const status = (history: History) => foldAll(history.events).runs.get("r")?.status;

  test.each([
    ["run.paused", {}, "paused"],
    ["run.exhausted", { scope: "run:r", unit: "usd" }, "budget_exhausted"],
    ["run.completed", {}, "completed"],
    ["run.failed", { reason: "stuck" }, "failed"],
    ["run.cancelled", {}, "cancelled"],
    ["tool.unresolved", { key: "k", code: "c" }, "unknown_outcome"],
    ["wait.started", { key: "k" }, "waiting"],
    ["approval.requested", { key: "k", question: "b:q" }, "waiting_approval"],
    ["run.suspended", { status: "waiting" }, "waiting"],
  ])("%s gives %s", (kind, data, expected) => {
    expect(status(run().add("run:r", kind, data))).toBe(expected);
    expect(RUN_STATUSES).toContain(expected);
  });

  test("a paused run stays paused whatever its steps still report", () => {
    expect(status(run().add("run:r", "run.paused").add("run:r", "approval.requested", { key: "k" }))).toBe(
      "paused",
    );
  });

  test("a resumed run that has an open question waits for it again", () => {
    const history = run()
      .add("run:r", "approval.requested", { key: "k" })
      .add("run:r", "run.paused")
      .add("run:r", "run.resumed");

    expect(status(history)).toBe("waiting_approval");
    expect(waitingApprovals(foldAll(history.events))).toHaveLength(1);
  });

  test("whose code has changed has ended, and says as what it goes on", () => {
    const history = new History().add("run:r", "run.started", { loop: "agent" });
    history.add("run:r", "run.drifted", { fork: "r.drift-1", key: "c2/model", section: "system" });
    history.add("run:r.drift-1", "run.forked", { origin: "r", at: 3, drift: true });
    const { runs } = foldAll(history.events);

    expect(runs.get("r")).toMatchObject({ status: "cancelled", reason: "drifted", successor: "r.drift-1" });
    expect(runs.get("r.drift-1")).toMatchObject({ origin: "r", successor: "" });
  });

  test("an ended run ends its open questions and stays ended until it is retried", () => {
    const history = run()
      .add("run:r", "approval.requested", { key: "k" })
      .add("run:r", "run.failed", { reason: "x" })
      .add("run:r", "run.paused");

    expect(status(history)).toBe("failed");
    expect(waitingApprovals(foldAll(history.events))).toEqual([]);
    expect(openRoots(foldAll(history.events))).toEqual([]);
    expect(status(history.add("run:r", "run.reopened"))).toBe("pending");
  });
});

test("who leaves a membrane, and what is unshared, is gone from it", () => {
  const { events } = churn()
    .add("artifact:churn/study", "group.left", { group: "churn/study", principal: "churn/analyst" })
    .add("artifact:churn/table", "artifact.written", {
      id: "churn/table",
      kind: "dataset",
      version: 2,
      owner: "churn/analyst",
      access: { policy: "private" },
    });
  const membrane = foldAll(events).membranes.get("churn/study");

  expect(membrane?.members.size).toBe(0);
  expect(membrane?.shared.size).toBe(0);
});

test("a fork from behind the end of a task has that end", () => {
  const history = churn();
  const at = history.events.filter((one) => one.stream === "run:churn/figures").at(-1)?.seq ?? 0;
  for (const [fork, seq] of [
    ["early", 5],
    ["late", at],
  ] as const) {
    history
      .add(`run:${fork}`, "run.forked", { origin: "churn/figures", at: seq })
      .add(`run:${fork}`, "run.completed");
  }
  const { tasks } = foldAll(history.events);

  expect(tasks.get("early")).toMatchObject({ status: "failed", outputs: [] });
  expect(tasks.get("late")).toMatchObject({ status: "done", outputs: ["churn/table@1"] });
});

test("a deleted artifact is in no membrane and marked", () => {
  const graph = foldAll(
    churn().add("artifact:churn/table", "artifact.deleted", { id: "churn/table" }).events,
  );

  expect(graph.artifacts.get("churn/table")?.deleted).toBe(true);
  expect(graph.membranes.get("churn/study")?.shared.size).toBe(0);
});

test("artifacts of a world do not mix with those of the space main", () => {
  const graph = foldAll(
    churn().add(
      "world:w",
      "artifact.written",
      { id: "churn/table", kind: "dataset", version: 9 },
      { space: "world:w" },
    ).events,
  );

  expect(graph.artifacts.get("churn/table")?.version).toBe(1);
});

test("hostile and unknown events break nothing", () => {
  const history = churn();
  const before = foldAll(history.events);
  for (const kind of [
    "run.started",
    "task.created",
    "task.begun",
    "decision.taken",
    "artifact.written",
    "group.joined",
    "model.completed",
    "limit.set",
    "no.such",
  ]) {
    for (const data of [
      {},
      { id: 7, task: null, counts: "x", access: [], parts: 3, agent: {}, cost: "many" },
    ])
      history.add("run:x", kind, data, { texts: { decision: "{", content: "[1" } });
  }
  const graph = foldAll(history.events);

  expect(graph.artifacts.has("")).toBe(false);
  expect(graph.events).toBe(history.events.length);
  expect(graph.tasks.get("churn/figures")).toEqual(before.tasks.get("churn/figures"));
  expect(graph.costs.total.microusd).toBe(12_000);
});

test("costs by model know runs whose beginning names none, and each model of a run", () => {
  const graph = foldAll(
    new History()
      .add("run:r", "run.started", { loop: "x", agent: "" })
      .add("run:r", "model.requested", { key: "1", model: "small" })
      .add("run:r", "model.completed", { key: "1", cost: 5 })
      .add("run:r", "model.requested", { key: "2", model: "large" })
      .add("run:r", "model.completed", { key: "2", cost: 70 }).events,
  );
  expect([...graph.costs.byModel].map(([model, spend]) => [model, spend.microusd])).toEqual([
    ["small", 5],
    ["large", 70],
  ]);
});

test("what agents remember is no artifact that was made", () => {
  const history = new History();
  for (const kind of ["memory_block", "memory_store", "report"])
    history.add(`artifact:${kind}`, "artifact.written", { id: kind, kind, version: 1 });
  expect(madeArtifacts(foldAll(history.events)).map((one) => one.id)).toEqual(["report"]);
});

test("a fork of a task is a task of its own, and what its agent works on now", () => {
  const id = "run:churn/figures.fork-1";
  const forked = churn().add(id, "run.forked", { origin: "churn/figures", at: 5 }).add(id, "run.resumed", {});
  const graph = foldAll(forked.events);

  expect(graph.tasks.get("churn/figures.fork-1")).toMatchObject({ agent: "churn/analyst", status: "active" });
  expect(graph.agents.get("churn/analyst")?.runId).toBe("churn/figures.fork-1");
  expect(vitals(graph).runningAgents).toBe(1);
});
