import { expect, test } from "vitest";
import { foldTurn, isRunEvent, NEW_TURN, type RunEvent } from "./turn";
import { effectWords, endWords, operationWords, turnWords } from "./turnWords";

let seq = 0;
function stored(type: string, fields: Record<string, unknown> = {}): RunEvent {
  seq += 1;
  return { seq, type, at_us: seq * 1000, ...fields };
}
function piece(offset: number, text: string): RunEvent {
  return { seq: null, type: "main_llm.delta", at_us: null, step: "main/model", offset, text };
}
function thought(offset: number, text: string): RunEvent {
  return { ...piece(offset, text), type: "main_llm.reasoning" };
}
const PLAN = stored("run.phase_changed", {
  phase: "planning",
  plan: [
    { operation_id: "guard", hook: "before_main_llm", kind: "guard", order: 1 },
    { operation_id: "dice", hook: "before_main_llm", kind: "compute", order: 2, depends_on: ["guard"] },
    { operation_id: "mood", hook: "after_main_llm", kind: "llm", order: 3, skipped: "not_due" },
  ],
});

test("operations go from planned to their end, and say it in words", () => {
  const planned = foldTurn(NEW_TURN, [PLAN]);
  expect(planned.operations.map((one) => operationWords(one).word)).toEqual([
    "planned",
    "waits for guard",
    "skipped: it is not due yet",
  ]);

  const running = foldTurn(planned, [
    stored("run.phase_changed", { phase: "before_main_llm" }),
    stored("operation.started", { operation_id: "guard", hook: "before_main_llm" }),
  ]);
  expect(turnWords(running)).toEqual({ word: "Working before the reply: guard", meaning: "working" });

  const over = foldTurn(running, [
    stored("operation.finished", { operation_id: "guard", hook: "before_main_llm", status: "done" }),
    stored("operation.finished", {
      operation_id: "dice",
      hook: "before_main_llm",
      status: "error",
      code: "timeout",
      message: "took 2 s",
    }),
    stored("commit.reported", {
      hook: "before_main_llm",
      reports: [
        { operation_id: "guard", index: 0, type: "artifact.upsert", status: "applied", tag: "fight" },
      ],
    }),
  ]);
  expect(over.operations.map((one) => one.status)).toEqual(["done", "error", "skipped"]);
  expect(operationWords(over.operations[1]!).word).toBe("error: took 2 s");
  expect(over.operations[0]!.effects.map(effectWords)).toEqual(["wrote art.fight"]);
});

test("reasoning grows beside the reply, begins anew with a new call, and a missing piece is noticed", () => {
  const begun = foldTurn(NEW_TURN, [stored("main_llm.started"), thought(0, "So 🐉"), thought(4, " they")]);
  expect([begun.reasoning, begun.text, begun.isWriting]).toEqual(["So 🐉 they", "", true]);
  const replied = foldTurn(begun, [piece(0, "Yes")]);
  expect([replied.reasoning, replied.text]).toEqual(["So 🐉 they", "Yes"]);
  expect(foldTurn(begun, [thought(0, ""), thought(0, "Anew")]).reasoning).toBe("Anew");
  expect(foldTurn(begun, [thought(20, "late")]).isTorn).toBe(true);
  expect(foldTurn(begun, [stored("main_llm.started")]).reasoning).toBe("");
});

test("the reply grows by pieces, also after an emoji, and survives a reconnect", () => {
  const begun = foldTurn(NEW_TURN, [stored("main_llm.started")]);
  const written = foldTurn(begun, [piece(0, "Hi 🐉"), piece(4, " there")]);
  expect(written.text).toBe("Hi 🐉 there");
  expect(written.isWriting).toBe(true);

  // Who comes back gets the text so far as one piece.
  const again = foldTurn(written, [piece(0, "Hi 🐉 there, "), piece(12, "you.")]);
  expect(again.text).toBe("Hi 🐉 there, you.");

  const torn = foldTurn(written, [piece(99, "lost")]);
  expect(torn.isTorn).toBe(true);
  expect(torn.text).toBe("Hi 🐉 there");

  // Asked again after a crash: what was said before counts no more.
  expect(foldTurn(again, [stored("main_llm.started")]).text).toBe("");
});

test("an event that came before changes nothing, so that a resumed stream folds to the same", () => {
  const events = [PLAN, stored("model.completed", { input_tokens: 10, output_tokens: 2 })];
  const once = foldTurn(NEW_TURN, events);
  expect(foldTurn(once, events)).toEqual(once);
  expect([once.inputTokens, once.outputTokens]).toEqual([10, 2]);
});

test("a run that is over leaves nothing at work, and says how it ended", () => {
  const running = foldTurn(NEW_TURN, [
    PLAN,
    stored("operation.started", { operation_id: "guard", hook: "before_main_llm" }),
  ]);
  const cancelled = foldTurn(running, [stored("run.finished", { status: "cancelled" })]);
  expect(cancelled.operations[0]!.status).toBe("aborted");
  expect(turnWords(cancelled).word).toContain("stopped by a person");

  const failed = foldTurn(running, [stored("run.finished", { status: "failed", message: "no answer" })]);
  expect(turnWords(failed)).toEqual({ word: "failed: no answer", meaning: "bad" });
  const waiting = foldTurn(running, [stored("approval.requested")]);
  expect(turnWords(waiting).word).toBe("waits for an approval");
});

test("endings of variants have words only where something happened", () => {
  expect(endWords("done", "completed")).toBe("");
  expect(endWords("aborted", "user_abort")).toContain("stopped by a person");
  expect(endWords("failed", "rate_limited")).toBe("failed: the provider asked to slow down");
});

test("what is no event is not taken for one", () => {
  expect(isRunEvent({ type: "run", run_id: "x" })).toBe(false);
  expect(isRunEvent({ seq: null, type: "main_llm.delta" })).toBe(true);
  expect(isRunEvent("x")).toBe(false);
  expect(
    foldTurn(NEW_TURN, [stored("from.the.future", { plan: 7 }), stored("commit.reported", { reports: 3 })])
      .status,
  ).toBe("");
});
