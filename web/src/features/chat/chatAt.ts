import type { ChatTurn } from "./api";

/** The turns as they stood at a time: what came later is not there yet. null is now. */
export function turnsAt(turns: readonly ChatTurn[], atUs: number | null): readonly ChatTurn[] {
  if (atUs === null) return turns;
  return turns
    .filter((turn) => turn.at_us <= atUs)
    .map((turn) => {
      const variants = turn.variants.filter((one) => one.at_us <= atUs);
      const isThere = variants.some((one) => one.number === turn.selected);
      return { ...turn, variants, selected: isThere ? turn.selected : (variants.at(-1)?.number ?? 0) };
    });
}
