import type { Market, Offer } from "@/client/worlds";

interface Offers {
  readonly open: readonly Offer[];
  readonly closed: readonly Offer[];
}

/** Offers as they stood after a tick: what came later is not there yet, what closed later is open. null is now. */
export function offersAt(market: Market, tick: number | null): Offers {
  if (tick === null) return market;
  const all = new Map([...market.open, ...market.closed].map((one) => [one.offer, one]));
  const there = [...all.values()].filter((one) => one.made <= tick);
  const isClosed = (one: Offer) => one.closed !== null && one.closed <= tick;
  return {
    open: there.filter((one) => !isClosed(one)).map((one) => ({ ...one, status: "open", closed: null })),
    closed: there.filter(isClosed),
  };
}
