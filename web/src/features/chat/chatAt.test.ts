import { expect, test } from "vitest";
import type { ChatTurn, Variant } from "./api";
import { turnsAt } from "./chatAt";

function variant(number: number, at_us: number): Variant {
  return {
    number,
    text: "",
    parts: [],
    status: "done",
    finish_reason: "",
    run_id: `r${number}`,
    at_us,
    is_hidden: false,
    speaker: "",
    tokens: 0,
  };
}
const TURNS: readonly ChatTurn[] = [
  {
    number: 1,
    user: "a",
    said: "a",
    selected: 2,
    variants: [variant(1, 10), variant(2, 30)],
    at_us: 5,
    is_hidden: false,
    persona: "",
    user_tokens: 0,
    media: [],
  },
  {
    number: 2,
    user: "b",
    said: "b",
    selected: 1,
    variants: [variant(1, 50)],
    at_us: 40,
    is_hidden: false,
    persona: "",
    user_tokens: 0,
    media: [],
  },
];

test("the past shows what was there, with the reply that was shown then", () => {
  expect(turnsAt(TURNS, null)).toBe(TURNS);
  expect(turnsAt(TURNS, 20).map((turn) => [turn.number, turn.selected, turn.variants.length])).toEqual([
    [1, 1, 1],
  ]);
  expect(turnsAt(TURNS, 45).map((turn) => [turn.number, turn.selected])).toEqual([
    [1, 2],
    [2, 0],
  ]);
});
