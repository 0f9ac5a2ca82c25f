import { expect, test, vi } from "vitest";
import { readFigures, type TickFigures, type WorldAgent } from "@/client/worlds";
import { agentsAt } from "./agentsAt";
import { dealingsOf, SPOTS_MAX, spotsOf } from "./dealings";
import { balanceSeries, giniSeries, sumsOf } from "./series";

function figures(tick: number, balances: Record<string, number> = {}): TickFigures {
  return {
    tick,
    gini: tick / 100,
    median: 10,
    richest: 20,
    circulating: 30,
    agents: 30,
    services: 0,
    others: 0,
    held: 0,
    issued: 0,
    minted: 1,
    returned: 0,
    trades: 2,
    volume: 7,
    prices: [],
    acted: 3,
    rejected: 1,
    rejections: {},
    tokens: 5,
    cost_microusd: 9,
    balances,
  };
}

/** A server whose world stands at a tick, and what it was asked. */
function server(now: number): readonly string[] {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (input: string) => {
    const url = new URL(input, "http://127.0.0.1");
    asked.push(url.pathname + url.search);
    const from = Number(url.searchParams.get("from_tick"));
    const to = Math.min(now, from + Number(url.searchParams.get("limit")) - 1);
    const items = Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => figures(from + index));
    const body = url.pathname.endsWith("/metrics")
      ? { items, next: to < now ? to + 1 : null }
      : { tick: now };
    return Promise.resolve(new Response(JSON.stringify(body)));
  });
  return asked;
}
const signal = new AbortController().signal;

test("ticks that are known are not asked for again, and the oldest fall out of the span", async () => {
  const asked = server(12);
  const known = Array.from({ length: 10 }, (_, index) => figures(index + 1));
  const found = await readFigures("m1", { span: 10, known }, signal);
  expect(found.map((one) => one.tick)).toEqual([3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  expect(asked[1]).toContain("from_tick=11");
});

test("what does not begin where the span does is read from its beginning", async () => {
  const asked = server(700);
  const found = await readFigures("m1", { span: 600, known: [figures(690)] }, signal);
  expect([found.length, found[0]?.tick, found.at(-1)?.tick]).toEqual([600, 101, 700]);
  expect(asked.filter((one) => one.includes("metrics"))).toHaveLength(2);
});

test("a world without a tick has no figures", async () => {
  server(0);
  expect(await readFigures("m1", { span: 10, known: [] }, signal)).toEqual([]);
  expect(sumsOf([])).toBeNull();
});

test("lines are told apart: the chosen agent, median and richest are read out, all others are quiet", () => {
  const ticks = [figures(1, { ann: 4, bob: 6 }), figures(2, { ann: 5, bob: 5 })];
  const series = balanceSeries(ticks, "ann");
  expect(series.filter((one) => !one.quiet).map((one) => one.label)).toEqual(["richest", "median", "ann"]);
  expect(series.at(-1)?.points).toEqual([
    [1, 4],
    [2, 5],
  ]);
  expect(giniSeries(ticks)[0]?.points).toEqual([
    [1, 0.01],
    [2, 0.02],
  ]);
  expect(sumsOf(ticks)).toMatchObject({ trades: 4, volume: 14, minted: 2, rejected: 2, tokens: 10 });
});

test("of the past balances are told, and what is not at hand is not made up", () => {
  const agent: WorldAgent = {
    id: "ann",
    balance: 99,
    owns: 1,
    state: null,
    ticks_in_state: 0,
    failures: 0,
    last_tick: 2,
    last_action: "noop",
    last_ok: true,
    last_source: "reflex",
  };
  const ticks = [figures(1, { ann: 4, bob: 6 })];
  expect(agentsAt([agent], ticks, null)).toEqual([agent]);
  expect(agentsAt([agent], ticks, 1)?.map((one) => [one.id, one.balance])).toEqual([
    ["bob", 6],
    ["ann", 4],
  ]);
  expect(agentsAt([agent], ticks, 2)).toBeNull();
});

test("who deals with whom is added up by pair, the busiest first", () => {
  const sold = (seq: number, seller: string, buyer: string, price: number) => ({
    seq,
    tick: 1,
    kind: "offer.accepted",
    actor: buyer,
    data: { seller, buyer, price },
  });
  const wrote = { seq: 9, tick: 2, kind: "message.sent", actor: "bo", data: { to: "ann" } };

  const dealings = dealingsOf([
    sold(1, "cy", "bo", 1),
    sold(2, "ann", "bo", 3),
    sold(3, "ann", "bo", 4),
    wrote,
  ]);

  expect(dealings).toEqual([
    { id: "ann bo", from: "ann", to: "bo", trades: 2, scrip: 7, messages: 0 },
    { id: "bo ann", from: "bo", to: "ann", trades: 0, scrip: 0, messages: 1 },
    { id: "cy bo", from: "cy", to: "bo", trades: 1, scrip: 1, messages: 0 },
  ]);
  expect([...spotsOf(dealings).keys()]).toEqual(["ann", "bo", "cy"]);
  const many = Array.from({ length: 200 }, (_, at) => sold(at, `s${at}`, `b${at}`, 1));
  expect(spotsOf(dealingsOf(many)).size).toBe(SPOTS_MAX);
});
