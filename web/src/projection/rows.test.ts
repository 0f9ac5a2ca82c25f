import { describe, expect, test } from "vitest";
import { churn, History } from "../../tests/events";
import { foldAll } from "../../tests/fold";
import { actorName, calledIn, agentsOf, filterRows, rowOf, type RowWorld } from "./rows";
import { decisionRows, exportedDecision } from "./rowsDecision";
import { csv } from "./rowsExport";
import { promptBefore, promptSteps } from "./rowsPrompt";

const WORLD: RowWorld = {
  agentOf: (runId) => (runId === "churn/figures" ? "churn/analyst" : ""),
  money: (microusd) => `$${microusd / 1_000_000}`,
};

function rowsOf(history: History) {
  return history.events.map((event) => rowOf(event, WORLD));
}

describe("rows of the stream", () => {
  const rows = rowsOf(churn());

  test("a decision is shown as its JSON, by the agent of its run", () => {
    expect(rows.find((row) => row.kind === "decision.taken")).toMatchObject({
      agent: "churn/analyst",
      runId: "churn/figures",
      step: "c1/decision",
      group: "decision",
      word: "decision",
      text: '{"action":"create_artifact","reason":"numbers agree"}',
    });
  });

  test("what a call holds and what it paid are told in money", () => {
    expect(rows.find((row) => row.word === "reserve")?.text).toBe("$0.041 held · model m · c1/decision");
    expect(rows.find((row) => row.word === "settle")?.text).toBe(
      "$0.012 paid · 900 tokens in (300 cached), 100 out · c1/decision",
    );
  });

  test("a cost that nobody has stated is told as about so much", () => {
    const about = new History().add("run:r", "model.completed", {
      key: "1",
      cost: 12_000,
      input_tokens: 9,
      estimated: true,
    });
    expect(rowsOf(about)[0]?.text).toContain("about $0.012 paid");
  });

  test("what is undone, changes and is erased has words, and every other kind the words of its table", () => {
    const history = new History()
      .add(
        "run:r",
        "compensation.planned",
        { key: "1", plan: "b:x" },
        {
          texts: { plan: '{"items":[{"key":"a"}],"not_undone":[{"key":"m"}],"note":"too late"}' },
        },
      )
      .add("run:r", "version.recorded", { change: "payee", version: 2 })
      .add("run:r", "run.drifted", { fork: "r.drift-1", key: "c2/model" })
      .add("tenant:t", "content.erased", { blobs: 7 })
      .add("schedule:s", "schedule.added", { cron: "0 3 * * *" })
      .add("world:w", "offer.made", { seller: "ann", artifact: "{map}", price: 5 })
      .add("world:w", "world.paused", {});
    expect(rowsOf(history).map((row) => [row.group, row.text])).toEqual([
      ["action", "1 call to be undone · 1 call cannot be · too late"],
      ["run", "version 2 of payee"],
      ["run", "its code has changed · c2/model · goes on as r.drift-1"],
      ["note", "content is erased · 7 pieces"],
      ["run", "the schedule is made · 0 3 * * *"],
      ["bookkeeping", "ann offers {map} · for 5"],
      ["bookkeeping", "no tick begins until it is resumed"],
    ]);
  });

  test("filters by kind, agent and text, and bookkeeping only where it is wanted", () => {
    const plain = new History()
      .add("run:r", "cycle.completed", { cycle: 1 })
      .add("run:r", "tool.refused", { key: "t", name: "web_fetch", code: "no_grant" });
    const all = [...rows, ...rowsOf(plain)];

    expect(filterRows(all, { group: "main", agent: "", text: "" }).map((row) => row.kind)).not.toContain(
      "cycle.completed",
    );
    expect(filterRows(all, { group: "all", agent: "", text: "" })).toHaveLength(all.length);
    expect(filterRows(all, { group: "failure", agent: "", text: "" }).map((row) => row.kind)).toEqual([
      "tool.refused",
    ]);
    expect(filterRows(all, { group: "all", agent: "", text: "WEB_FETCH" })).toHaveLength(1);
    const analyst = filterRows(all, { group: "all", agent: "churn/analyst", text: "" });
    expect(new Set(analyst.map((row) => row.runId))).toEqual(new Set(["churn/figures"]));
    expect(agentsOf(all)).toContain("churn/analyst");
  });

  test("an event of a later version is a row as well, and broken fields hurt nobody", () => {
    const odd = new History()
      .add("run:r", "robot.waved", { hand: "left", times: 3, note: "b:secret" })
      .add("run:r", "model.requested", { key: 7, counts: "none" })
      .add("run:r", "decision.taken", {}, { texts: { decision: "{" } });

    expect(rowsOf(odd).map((row) => row.text)).toEqual(["waved · hand left · times 3", "nothing held", "{"]);
  });

  test("what becomes of the times of a schedule is told in words", () => {
    const told = new History()
      .add("schedule:s", "schedule.fired", { due_us: 1, run: "s/1", missed: 2 })
      .add("schedule:s", "schedule.skipped", { due_us: 2, reason: "overlap", run: "s/1" })
      .add("schedule:s", "schedule.queued", { due_us: 3, behind: "s/1" })
      .add("schedule:s", "schedule.failed", { run: "s/2" }, { texts: { message: "no folder" } })
      .add("schedule:s", "schedule.paused", { reason: "failures" });

    expect(rowsOf(told).map((row) => [row.text, row.isFailure])).toEqual([
      ["fired s/1 · 2 times missed before", false],
      ["skipped · overlap · s/1", false],
      ["waits for s/1", false],
      ["cannot start s/2 · no folder", true],
      ["paused · failures", true],
    ]);
  });

  test("people are called by name, agents by the end of their id", () => {
    expect(["user:ada", "churn/analyst", "mission:churn", "operator"].map(actorName)).toEqual([
      "ada",
      "analyst",
      "mission",
      "operator",
    ]);
  });
});

test("an agent is called in the console as on the canvas", () => {
  const agents = new Map([["churn/analyst", { name: "Ines" }]]);
  expect(["churn/analyst", "churn/writer", "user:ada"].map((actor) => calledIn(agents, actor))).toEqual([
    "Ines",
    "writer",
    "ada",
  ]);
});

describe("decisions", () => {
  test("each has its verdict, and that of a fork's shared history stands once", () => {
    const forked = churn().add("run:churn/figures.fork-1", "run.forked", { origin: "churn/figures", at: 5 });
    const rows = decisionRows(foldAll(forked.events));

    expect(rows.map(exportedDecision)).toEqual([
      expect.objectContaining({
        task: "churn/figures",
        agent: "churn/analyst",
        iteration: 1,
        action: "create_artifact",
        reason: "numbers agree",
        artifact: "churn/table@1",
        verdict: "passed",
      }),
    ]);
  });

  test("an export runs no formula, and quotes what CSV must quote", () => {
    const text = csv(
      ["reason", "n"],
      [
        { reason: '=HYPERLINK("http")', n: 1 },
        { reason: "-1 and, a comma", n: -1 },
        { reason: "@sum", n: 0 },
        { reason: "two\nlines", n: null },
        { reason: "plain", n: undefined },
      ],
    );

    expect(text.split("\r\n")).toEqual([
      "reason,n",
      `"'=HYPERLINK(""http"")",1`,
      `"'-1 and, a comma",-1`,
      `"'@sum",0`,
      '"two\nlines",',
      "plain,",
      "",
    ]);
  });
});

describe("prompts", () => {
  const history = new History()
    .add("run:a", "task.begun", { key: "begun" })
    .add("run:a", "context.assembled", { key: "c1/decision" })
    .add("run:a", "model.completed", {
      key: "c1/decision",
      input_tokens: 9,
      cached_input_tokens: 4,
      output_tokens: 1,
    })
    .add("run:a", "decision.taken", { key: "c1/decided" })
    .add("run:b", "context.assembled", { key: "c1/decision" })
    .add("run:a", "context.assembled", { key: "c2/decision" })
    .add("run:a", "model.failed", { key: "c2/decision", code: "overloaded" });
  const steps = promptSteps(history.events);

  test("stand with what the provider counted, or that the call failed", () => {
    expect(
      steps.map(({ runId, step, inputTokens, cachedTokens, hasFailed }) => [
        `${runId} ${step}`,
        inputTokens,
        cachedTokens,
        hasFailed,
      ]),
    ).toEqual([
      ["a c1/decision", 9, 4, false],
      ["b c1/decision", null, null, false],
      ["a c2/decision", null, null, true],
    ]);
  });

  test("an event belongs to the prompt that its run was sent last, or to its own", () => {
    const at = (runId: string, step: string, position: number) =>
      promptBefore(steps, { runId, step, position })?.step;

    expect(at("a", "c1/decided", 4)).toBe("c1/decision");
    expect(at("a", "c2/decision", 3)).toBe("c2/decision");
    expect(at("a", "begun", 1)).toBeUndefined();
    expect(at("c", "x", 9)).toBeUndefined();
  });

  test("the one before is of the same run, for a fork of what it shares", () => {
    const forked = history
      .add("run:f", "run.forked", { origin: "a", at: 4 })
      .add("run:f", "context.assembled", { key: "c2/decision" })
      .add("run:g", "run.forked", { origin: "f", at: 1 })
      .add("run:g", "context.assembled", { key: "c9/decision" });

    expect(promptSteps(forked.events).map((step) => [step.runId, step.step, step.previous])).toEqual([
      ["a", "c1/decision", ""],
      ["b", "c1/decision", ""],
      ["a", "c2/decision", "c1/decision"],
      ["f", "c2/decision", "c1/decision"],
      ["g", "c9/decision", "c1/decision"],
    ]);
  });
});

test("a plan costs about what is estimated; at most only where that is enforced", () => {
  const plan = { calls: 27, cost: 270_000 };
  const told = rowsOf(
    new History()
      .add("run:m", "mission.planned", plan)
      .add("run:m", "mission.planned", { ...plan, is_limit: true }),
  );

  expect(told[0]?.text).toMatch(/^about 27 calls · about /);
  expect(told[1]?.text).toMatch(/^about 27 calls · at most /);
});
