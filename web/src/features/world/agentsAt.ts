import type { TickFigures, WorldAgent } from "@/client/worlds";

/**
 * Agents as they stood after a tick, the richest first; null is now. Of the past only balances are told;
 * the answer is null if those of that tick are not among the figures.
 */
export function agentsAt(
  agents: readonly WorldAgent[] | undefined,
  figures: readonly TickFigures[] | undefined,
  tick: number | null,
): readonly WorldAgent[] | null {
  if (tick === null) return agents ?? [];
  const balances = figures?.find((one) => one.tick === tick)?.balances;
  if (balances === undefined || Object.keys(balances).length === 0) return null;
  const known = new Map((agents ?? []).map((one) => [one.id, one]));
  return Object.entries(balances)
    .map(([id, balance]) => ({ ...(known.get(id) ?? { ...UNKNOWN, id }), balance }))
    .sort((a, b) => b.balance - a.balance || a.id.localeCompare(b.id));
}

const UNKNOWN: Omit<WorldAgent, "id" | "balance"> = {
  owns: 0,
  state: null,
  ticks_in_state: 0,
  failures: 0,
  last_tick: null,
  last_action: null,
  last_ok: null,
  last_source: null,
};
