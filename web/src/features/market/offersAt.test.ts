import { expect, test } from "vitest";
import type { Market, Offer } from "@/client/worlds";
import { offersAt } from "./offersAt";
import { paidSeries, pricesOf } from "./prices";

function offer(name: string, made: number, closed: number | null): Offer {
  return {
    offer: name,
    artifact: "poem",
    version: 1,
    kind: "document",
    seller: "ann",
    price: 3,
    sells: "copy",
    to: "",
    uses: null,
    ticks: null,
    royalty_percent: 0,
    made,
    status: closed === null ? "open" : "accepted",
    buyer: closed === null ? null : "bob",
    closed,
    sold: closed === null ? 0 : 1,
  };
}
const MARKET: Market = {
  world: "m1",
  tick: 9,
  open: [offer("o3", 8, null), offer("o1", 1, null)],
  closed: [offer("o2", 2, 5)],
  prices: [],
  from_tick: 1,
};
const names = (offers: readonly Offer[]) => offers.map((one) => one.offer);

test("the past knows no later offer, and what closed later is open", () => {
  expect(offersAt(MARKET, null)).toBe(MARKET);
  const then = offersAt(MARKET, 4);
  expect(names(then.open)).toEqual(["o1", "o2"]);
  expect(then.open[1]?.status).toBe("open");
  expect(names(then.closed)).toEqual([]);
  expect(names(offersAt(MARKET, 5).closed)).toEqual(["o2"]);
});

test("prices of several ticks come together by kind and way of selling", () => {
  const price = (median: number, trades: number) => ({
    kind: "document",
    sells: "copy",
    trades,
    volume: median * trades,
    low: median,
    median,
    high: median,
  });
  const figures = [
    { tick: 1, prices: [price(10, 2)] },
    { tick: 2, prices: [] },
    { tick: 3, prices: [price(20, 1)] },
  ];
  expect(pricesOf(figures)).toEqual([
    { kind: "document", sells: "copy", trades: 3, volume: 40, low: 10, last: 20, high: 20 },
  ]);
  expect(paidSeries(figures)[0]?.points).toEqual([
    [1, 10],
    [3, 20],
  ]);
});
