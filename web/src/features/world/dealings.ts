import { messageOf, type ToldEvent, tradeOf } from "@/projection/worldWords";

/** What went from one agent to another. */
export interface Dealing {
  readonly id: string;
  /** Who sold or wrote. */
  readonly from: string;
  /** Who bought or was written to. */
  readonly to: string;
  readonly trades: number;
  readonly scrip: number;
  readonly messages: number;
}

export const DEALING_KINDS = ["offer.accepted", "message.sent"] as const;

/** Who sold to whom and who wrote to whom, the busiest pairs first. */
export function dealingsOf(events: readonly ToldEvent[]): readonly Dealing[] {
  const found = new Map<string, Dealing>();
  for (const event of events) {
    const isTrade = event.kind === "offer.accepted";
    const { seller, buyer, price } = tradeOf(event);
    const [from, to] = isTrade ? [seller, buyer] : messageOf(event);
    if (from === "" || to === "") continue;
    const id = `${from} ${to}`;
    const known = found.get(id) ?? { id, from, to, trades: 0, scrip: 0, messages: 0 };
    found.set(
      id,
      isTrade
        ? { ...known, trades: known.trades + 1, scrip: known.scrip + price }
        : { ...known, messages: known.messages + 1 },
    );
  }
  const times = (one: Dealing) => one.trades + one.messages;
  return [...found.values()].sort((a, b) => times(b) - times(a) || a.id.localeCompare(b.id));
}

export interface Spot {
  readonly agent: string;
  /** From the middle of a circle of radius 1. */
  readonly x: number;
  readonly y: number;
}

export const SPOTS_MAX = 60;

/** Places on a circle for the agents of the busiest pairs, by name. */
export function spotsOf(dealings: readonly Dealing[]): ReadonlyMap<string, Spot> {
  const agents = new Set<string>();
  for (const { from, to } of dealings) {
    if (agents.size + Number(!agents.has(from)) + Number(!agents.has(to)) > SPOTS_MAX) continue;
    agents.add(from).add(to);
  }
  const named = [...agents].sort((a, b) => a.localeCompare(b));
  return new Map(
    named.map((agent, at) => {
      const angle = (2 * Math.PI * at) / named.length - Math.PI / 2;
      return [agent, { agent, x: Math.cos(angle), y: Math.sin(angle) }];
    }),
  );
}
