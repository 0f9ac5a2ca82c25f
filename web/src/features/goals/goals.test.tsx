import { cleanup, render, screen } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { END_CODES } from "@/projection/endWords";
import { History } from "../../../tests/events";
import { foldAll } from "../../../tests/fold";
import { microOf, reachedLimit, suggestedUsd } from "./budget";
import { durationWords } from "./duration";
import { doingOf, QUIET_AFTER_S } from "./doing";
import { judgedOf } from "./evidence";
import { rangesOf } from "./marks";
import { outcomeOf, questionThatWorks, statusWord } from "./outcome";
import { OutcomeCard } from "./OutcomeCard";
import type { Goal, GoalTask } from "./useGoals";

const TASK = {
  id: "m/figures",
  status: "active",
  reason: "",
  blocked_by: "",
  run_status: "running",
  outputs: [],
  cost_microusd: 1_000,
} as unknown as GoalTask;

function goal(fields: Partial<Goal> = {}, ...tasks: readonly Partial<GoalTask>[]): Goal {
  return {
    id: "m",
    goal: "Which region sold most?",
    status: "running",
    run_status: "waiting",
    reason: "",
    message: "",
    launched_us: 1,
    approvals: [],
    tasks: tasks.map((one) => ({ ...TASK, ...one })),
    agents: [],
    membranes: [],
    cost_microusd: 5_000,
    budget_microusd: null,
    ...fields,
  } as unknown as Goal;
}

describe("what a goal says of itself", () => {
  const kind = (...args: Parameters<typeof goal>) => outcomeOf(goal(...args)).kind;

  test("comes from the server's status, and what a person must hear first comes first", () => {
    expect(kind({ status: "completed", run_status: "failed" })).toBe("done");
    expect(kind({}, { status: "blocked", run_status: "budget_exhausted" })).toBe("budget");
    expect(kind({}, { run_status: "paused" })).toBe("paused");
    expect(kind({}, { run_status: "unknown_outcome" })).toBe("unknown");
    expect(kind({ launched_us: null, run_status: "running" })).toBe("planning");
    expect(kind({ status: "cancelled", run_status: "cancelled" })).toBe("cancelled");
    expect(kind({})).toBe("working");
  });

  test("a blocked goal repeats what its task lacks, and names the task that can be tried again", () => {
    const said = outcomeOf(
      goal(
        { status: "blocked", run_status: "failed", message: "No table tells the weather." },
        { id: "m/report", status: "blocked", reason: "dependency_failed" },
        { status: "blocked", reason: "missing_input" },
      ),
    );
    expect(said.sentence).toBe("No table tells the weather.");
    expect(said.task?.id).toBe("m/figures");
  });

  test("the question that works is the one that the refusal names", () => {
    const named = (message: string) => questionThatWorks({ message });
    expect(named('"weather" is not understood here; try: Which region sold most?')).toBe(
      "Which region sold most?",
    );
    expect(named("Nothing here tells the weather.")).toBe("");
  });

  test("ends by a limit are told apart from errors", () => {
    const ended = (reason: string) =>
      outcomeOf(goal({ status: "failed", run_status: "failed" }, { status: "failed", reason })).title;
    expect(ended("max_iterations")).toBe("Out of iterations");
    expect(ended("stuck")).toBe("Stuck");
    expect(ended("model_refused_call")).toBe("The provider refused");
    expect(ended("rate_limited")).toBe("The provider's rate limit");
    expect(ended("something_new")).toBe("Failed");
  });

  test.each([...END_CODES, "something_new"])("of %s it says what happened and what helps", (reason) => {
    const message = `figures failed (${reason}).`;
    const said = outcomeOf(
      goal({ status: "failed", run_status: "failed", message }, { status: "failed", reason }),
    );
    expect(said.sentence).toMatch(/^figures .*(\b[Rr]etr(y|ied)\b|Ask (again|the goal again))/u);
    expect(said.sentence.includes(`(${reason})`)).toBe(reason === "something_new");
  });

  test("where a retry meets the same again, to ask anew comes first", () => {
    const order = (reason: string) => {
      const failed = goal({ status: "failed", run_status: "failed" }, { status: "failed", reason });
      render(<OutcomeCard goal={failed} outcome={outcomeOf(failed)} />);
      const names = screen.getAllByRole("button").map((one) => one.textContent);
      cleanup();
      return names;
    };
    expect(order("context_too_long")).toEqual(["Ask in other words", "Retry figures"]);
    expect(order("rate_limited")).toEqual(["Retry figures", "Ask in other words"]);
  });

  test("a goal whose planning failed repeats its run, under the name of what happened, and says what helps", () => {
    const planning = (reason: string, message: string) =>
      outcomeOf({
        ...goal({ status: "failed", run_status: "failed", message }),
        reason,
        tasks: [],
      });
    expect(planning("provider_unavailable", "no route to host")).toMatchObject({
      title: "The provider is away",
      sentence: "no route to host. Retry it when it is back.",
      task: null,
    });
    expect(planning("plan_invalid", "A task has no agent.").title).toBe("No usable plan");
    expect(planning("KeyError", "'x'").sentence).toBe(
      "'x'. Retry it once the cause is gone, or ask again in other words.",
    );
  });

  test("a plan that waits is no running goal", () => {
    expect(statusWord({ status: "waiting_approval", launched_us: null }).word).toBe("plan ready");
    expect(statusWord({ status: "completed", launched_us: 1 })).toEqual({ word: "done", meaning: "good" });
  });
});

test("the limit that was reached is the one that its run recorded", () => {
  const stopped = (scope: string) =>
    foldAll(
      new History()
        .add("run:m/figures", "run.started", { loop: "task" })
        .add("run:m/figures", "run.exhausted", { scope, unit: "usd" }).events,
    );
  const task = { ...TASK, run_status: "budget_exhausted" };
  expect(reachedLimit(stopped("run:m"), goal(), task)).toMatchObject({ kind: "run", id: "m", spent: 5_000 });
  expect(reachedLimit(stopped("agent:m/ann"), goal(), task)).toMatchObject({ kind: "agent", id: "m/ann" });
  expect(reachedLimit(stopped("run:m/figures"), goal(), task)).toMatchObject({
    id: "m/figures",
    spent: 1_000,
  });
  const ofGoal = reachedLimit(stopped("run:m"), goal({ budget_microusd: 30_000 }), task);
  expect(ofGoal.cap).toBe(30_000);
  expect(suggestedUsd(ofGoal)).toBe("0.06");
  expect(suggestedUsd({ spent: 0, cap: null, asked: 0 })).toBe("0.01");
  expect(suggestedUsd({ spent: 250_000, cap: 30_000, asked: 0 })).toBe("0.50");
  expect(suggestedUsd({ spent: 10_000, cap: 30_000, asked: 90_000 })).toBe("0.19");
  expect(microOf("0.80")).toBe(800_000);
  expect(microOf("-1")).toBeNull();
  expect(microOf("1e9")).toBeNull();
});

test("a limit that is not spent yet says what the refused step may cost", () => {
  const graph = foldAll(
    new History()
      .add("run:m", "run.started", { loop: "mission" })
      .add("run:m", "run.exhausted", { scope: "run:m", unit: "usd", asked: 21_000 }).events,
  );
  const limit = reachedLimit(graph, goal({ budget_microusd: 30_000 }), null);
  expect(limit.words).toBe(
    "The limit is that of the whole goal. The next step may cost up to $0.021, which is set aside before it begins.",
  );
});

test("the time of a goal at work goes on between two events, and that of one that waits does not", () => {
  const timed = (fields: Partial<Goal>) =>
    durationWords(goal({ launched_us: 1_000_000, ...fields }, { changed_us: 3_000_000 }), 9_000);
  expect(timed({ status: "running" })).toBe("8.0 s so far");
  expect(timed({ status: "waiting_approval" })).toBe("2.0 s so far");
  expect(timed({ status: "completed", ended_us: 5_000_000 })).toBe("4.0 s");
});

test("a slow call says its attempt, what it waits for, and when nothing is heard of it", () => {
  const run = foldAll(
    new History()
      .add("run:m", "run.started", { loop: "mission" })
      .add("run:m", "model.requested", { key: "k", model: "gpt" })
      .add("run:m", "model.attempted", {
        key: "k",
        attempt: 1,
        attempts_max: 4,
        code: "rate_limited",
        wait_ms: 4_000,
      }).events,
  ).runs.get("m");
  expect(run).toBeDefined();
  if (run === undefined) return;
  const failedMs = (run.failedTries[0]?.atUs ?? 0) / 1_000;
  const waiting = doingOf(run, failedMs + 1_000);
  expect(waiting).toMatchObject({
    attemptWords: "attempt 2 of 4",
    isWaiting: true,
    waitS: 3,
    isQuiet: false,
  });
  expect(waiting.failed[0]).toMatch(/^Attempt 1 of 4 failed at .+ \(429, .+\); waits 4 s\.$/);
  const quiet = doingOf(run, failedMs + 4_000 + (QUIET_AFTER_S + 1) * 1_000);
  expect(quiet).toMatchObject({ isWaiting: false, isQuiet: true });
  const over = foldAll(
    new History()
      .add("run:m", "run.started", {})
      .add("run:m", "model.requested", { key: "k", model: "gpt" })
      .add("run:m", "model.attempted", { key: "k", attempt: 1, code: "rate_limited", wait_ms: 4 })
      .add("run:m", "model.completed", { key: "k" }).events,
  ).runs.get("m");
  expect(over).toMatchObject({ doing: "", failedTries: [] });
});

test("the number of attempts is that of the record: an older one has none, a crash begins anew", () => {
  const after = (...tries: readonly Record<string, unknown>[]) => {
    const history = new History()
      .add("run:m", "run.started", {})
      .add("run:m", "model.requested", { key: "k", model: "gpt" });
    for (const one of tries)
      history.add("run:m", "model.attempted", { key: "k", code: "rate_limited", wait_ms: 1, ...one });
    const run = foldAll(history.events).runs.get("m");
    if (run === undefined) throw new Error("no run");
    return doingOf(run, 0);
  };
  expect(after().attemptWords).toBe("");
  expect(after({ attempt: 1 }, { attempt: 2 }).attemptWords).toBe("attempt 3");
  expect(after({ attempt: 1, attempts_max: 3 }).attemptWords).toBe("attempt 2 of 3");
  const crashed = after({ attempt: 1, attempts_max: 3 }, { attempt: 0, code: "interrupted", wait_ms: 0 });
  expect(crashed.attemptWords).toBe("");
  expect(crashed.failed[1]).toContain("before its process ended");
});

test("quotes are found in what was rendered, whatever signs Markdown took away", () => {
  document.body.innerHTML = "<p>North leads with <strong>42,983.02</strong>, ahead of South.</p>";
  const [found, missing] = rangesOf(document.body, [
    "- North leads\n- with **42,983.02**, ahead",
    "West leads",
  ]);
  expect(found?.toString()).toBe("North leads with 42,983.02, ahead");
  expect(missing).toBeNull();
});

test("a verdict is read as far as it has the form of one, and a void one is none", () => {
  const verdict = {
    summary: "ok",
    criteria: [
      {
        criterion: "Names it",
        met: true,
        evidence: [{ ref: "r@1", quote: "North" }, "junk", { ref: 1, quote: 2 }],
      },
      "junk",
    ],
  };
  const task = (isVoid: string) =>
    ({ iterations: [{ passed: true, verdict, void: isVoid }] }) as unknown as Parameters<typeof judgedOf>[0];
  expect(judgedOf(task(""))).toMatchObject({ met: 1, criteria: 2 });
  expect(judgedOf(task("")).evidence).toEqual([
    { number: 1, criterion: "Names it", ref: "r@1", quote: "North" },
  ]);
  expect(judgedOf(task("no_evidence")).criteria).toBe(0);
  expect(judgedOf(undefined).criteria).toBe(0);
});
