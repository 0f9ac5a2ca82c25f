import { expect, test } from "vitest";
import { History } from "../../tests/events";
import { balances, costsOver, ledgerLines } from "./rowsLedger";

const HISTORY = new History()
  .add("run:r", "model.requested", {
    key: "c1",
    counts: [["run:r", "usd", 41_000, 0]],
    postings: [["budget:default", "hold:r", "usd", 41_000]],
  })
  .add("run:r", "model.completed", {
    key: "c1",
    cost: 12_000,
    input_tokens: 90,
    output_tokens: 10,
    counts: [["run:r", "usd", -41_000, 12_000]],
    postings: [
      ["hold:r", "spent:m", "usd", 12_000],
      ["hold:r", "budget:default", "usd", 29_000],
    ],
  })
  .add("world:w", "offer.accepted", { postings: [["a", "b", "scrip", 5]] }, { space: "world:w" })
  .add("run:r", "model.completed", { key: "c2", cost: 9_000, unpriced: true, input_tokens: 1 })
  .add("run:r", "model.failed", { key: "c3", cost: 1_000, counts: [["run:r", "tokens", -50, 0]] });

test("postings, holds, settlements and what was given back are lines of their own", () => {
  const lines = ledgerLines(HISTORY.events);

  expect(
    lines.map(({ sort, source, target, unit, amount, held }) => [sort, source, target, unit, amount, held]),
  ).toEqual([
    ["posting", "budget:default", "hold:r", "usd", 41_000, 0],
    ["hold", "run:r", "", "usd", 41_000, 0],
    ["posting", "hold:r", "spent:m", "usd", 12_000, 0],
    ["posting", "hold:r", "budget:default", "usd", 29_000, 0],
    ["settle", "run:r", "", "usd", 12_000, 41_000],
    ["posting", "a", "b", "scrip", 5, 0],
    ["release", "run:r", "", "tokens", 50, 50],
  ]);
  expect(new Set(lines.map((line) => line.id)).size).toBe(lines.length);
});

test("balances add up to zero in each space and asset, and spaces stay apart", () => {
  const accounts = balances(ledgerLines(HISTORY.events));
  const sumOf = (space: string) =>
    accounts.filter((one) => one.space === space).reduce((sum, one) => sum + one.balance, 0);

  expect(accounts.find((one) => one.account === "hold:r")?.balance).toBe(0);
  expect(accounts.find((one) => one.account === "spent:m")?.balance).toBe(12_000);
  expect([sumOf("main"), sumOf("world:w")]).toEqual([0, 0]);
});

test("costs add up over time, without calls whose price nobody knows", () => {
  expect(costsOver(HISTORY.events).map(({ microusd, tokens }) => [microusd, tokens])).toEqual([
    [12_000, 100],
    [12_000, 101],
    [13_000, 101],
  ]);
});

test("malformed movements are left out", () => {
  const odd = new History()
    .add("run:r", "model.requested", { postings: [["a", "b"], 7], counts: [[1, 2], null] })
    .add("run:r", "model.requested", { postings: "none", counts: {} });

  expect(ledgerLines(odd.events)).toEqual([]);
});
