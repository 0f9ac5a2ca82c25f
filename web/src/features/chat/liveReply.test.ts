import { expect, test } from "vitest";
import { foldTurn, NEW_TURN } from "@/projection/turn";
import type { ChatTurn, Variant } from "./api";
import { isShownByTurn, type LiveRun, shownReply } from "./liveReply";

function variant(number: number, run_id: string, text: string, status = "done"): Variant {
  return {
    number,
    text,
    parts: [],
    status,
    finish_reason: "",
    run_id,
    at_us: 1,
    is_hidden: false,
    speaker: "",
    tokens: 0,
  };
}
function turn(selected: number, ...variants: Variant[]): ChatTurn {
  return {
    number: 1,
    user: "hi",
    said: "hi",
    selected,
    variants,
    at_us: 1,
    is_hidden: false,
    persona: "",
    user_tokens: 0,
    media: [],
  };
}
function live(run: string, trigger: string, text: string): LiveRun {
  const begun = foldTurn(NEW_TURN, [
    { seq: 1, type: "main_llm.started", at_us: 1 },
    { seq: null, type: "main_llm.delta", at_us: null, offset: 0, text },
  ]);
  return { run, trigger, turn: begun };
}

test("a new reply is written in the place of its turn", () => {
  const begun = turn(1, variant(1, "r2", "", "running"));
  expect(shownReply(begun, live("r2", "generate", "Hel"))).toMatchObject({
    variant: undefined,
    writing: "Hel",
  });
  expect(isShownByTurn(begun, "r2", "generate")).toBe(true);
});

test("more of a reply is written after what is there", () => {
  const before = turn(1, variant(1, "r1", "Hello"));
  const shown = shownReply(before, live("r2", "continue", ", you"));
  expect([shown.variant?.text, shown.writing]).toEqual(["Hello", ", you"]);
  expect(isShownByTurn(before, "r2", "continue")).toBe(true);
});

test("while another reply is prepared, the one before stays in sight", () => {
  const before = turn(1, variant(1, "r1", "Hello"));
  expect(shownReply(before, live("r2", "regenerate", ""))).toMatchObject({ writing: "" });
  expect(isShownByTurn(before, "r2", "regenerate")).toBe(false);
});

test("while operations work after it, the recorded reply is shown", () => {
  const work = live("r2", "generate", "Hello");
  const recorded = foldTurn(work.turn, [{ seq: 2, type: "main_llm.finished", at_us: 2 }]);
  const shown = shownReply(turn(1, variant(1, "r2", "Hello", "running")), { ...work, turn: recorded });
  expect([shown.variant?.text, shown.writing]).toEqual(["Hello", ""]);
});

test("a greeting is never written anew", () => {
  expect(isShownByTurn({ ...turn(1, variant(1, "", "Hi")), number: 0 }, "r1", "generate")).toBe(false);
  expect(isShownByTurn(undefined, "r1", "generate")).toBe(false);
});
