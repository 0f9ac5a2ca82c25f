import { api, type Page, path } from "./http";
import type { Shape } from "./types";

export type World = Shape<"WorldShown">;
export type WorldLine = Shape<"WorldLine">;
export type WorldAgent = Shape<"WorldAgent">;
export type WorldEvent = Shape<"WorldEvent">;
export type TickFigures = Shape<"TickFigures">;
export type Offer = Shape<"Offer">;
export type Market = Shape<"Market">;

const PAGE = 500;
const FIGURES_AT_ONCE = 500;

export function readWorlds(signal: AbortSignal): Promise<Shape<"WorldsPage">> {
  return api.get<Shape<"WorldsPage">>("/worlds", { limit: PAGE }, signal);
}

export function readWorld(world: string, signal: AbortSignal): Promise<World> {
  return api.get<World>(path("worlds", world), undefined, signal);
}

/** Agents, the richest first, `most` of them. */
export async function readAgents(
  world: string,
  most: number,
  signal: AbortSignal,
): Promise<readonly WorldAgent[]> {
  const found: WorldAgent[] = [];
  for (let after: string | number | null = 0; after !== null && found.length < most;) {
    const page: Page<WorldAgent> = await api.get<Page<WorldAgent>>(
      `${path("worlds", world)}/agents`,
      { after, limit: PAGE },
      signal,
    );
    found.push(...page.items);
    after = page.next;
  }
  return found;
}

/** The newest events of some kinds, the newest first. */
export async function readEvents(
  world: string,
  wish: { readonly kind?: readonly string[]; readonly agent?: string; readonly limit: number },
  signal: AbortSignal,
): Promise<readonly WorldEvent[]> {
  const page = await api.get<Page<WorldEvent>>(
    `${path("worlds", world)}/events`,
    { ...wish, last: true },
    signal,
  );
  return page.items.toReversed();
}

/**
 * Figures of the last `span` ticks. Ticks never change once they passed, so only those after `known` are
 * asked for. `agent` names one whose balance is told in a world of many.
 */
export async function readFigures(
  world: string,
  wish: { readonly span: number; readonly known: readonly TickFigures[]; readonly agent?: string },
  signal: AbortSignal,
): Promise<readonly TickFigures[]> {
  const { span, agent } = wish;
  const { tick: now } = await readWorld(world, signal);
  const earliest = Math.max(1, now - span + 1);
  const kept = wish.known.filter((one) => one.tick >= earliest);
  const isWhole = kept[0]?.tick === earliest;
  const found = isWhole ? [...kept] : [];
  let from: number | null = (found.at(-1)?.tick ?? earliest - 1) + 1;
  while (from !== null && from <= now) {
    const page: Shape<"WorldMetrics"> = await api.get<Shape<"WorldMetrics">>(
      `${path("worlds", world)}/metrics`,
      { from_tick: from, limit: FIGURES_AT_ONCE, ...(agent !== undefined && { agent: [agent] }) },
      signal,
    );
    found.push(...page.items);
    from = page.next;
  }
  return found;
}

export function readMarket(world: string, signal: AbortSignal): Promise<Market> {
  return api.get<Market>("/market", { world, limit: PAGE }, signal);
}
