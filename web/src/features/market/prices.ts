import type { TickFigures } from "@/client/worlds";
import type { ChartSeries } from "@/ui/chart";
import type { Tone } from "@/ui/tone";

type Priced = readonly Pick<TickFigures, "tick" | "prices">[];

export interface PriceRow {
  readonly kind: string;
  readonly sells: string;
  readonly trades: number;
  readonly volume: number;
  readonly low: number;
  /** Median of the newest tick with a trade. */
  readonly last: number;
  readonly high: number;
}

/** What was paid in these ticks together, by kind of artifact and way of selling. */
export function pricesOf(figures: Priced): readonly PriceRow[] {
  const rows = new Map<string, PriceRow>();
  for (const { prices } of figures) {
    for (const { kind, sells, trades, volume, low, median, high } of prices) {
      const key = `${kind} ${sells}`;
      const before = rows.get(key);
      rows.set(key, {
        kind,
        sells,
        trades: trades + (before?.trades ?? 0),
        volume: volume + (before?.volume ?? 0),
        low: Math.min(low, before?.low ?? low),
        last: median,
        high: Math.max(high, before?.high ?? high),
      });
    }
  }
  return [...rows.values()].sort((a, b) => b.volume - a.volume);
}

const LOOKS: readonly { readonly tone: Tone; readonly dash?: string }[] = [
  { tone: "artifact" },
  { tone: "agent", dash: "7 4" },
  { tone: "money", dash: "2 3" },
  { tone: "membrane", dash: "10 3 2 3" },
  { tone: "membrane2", dash: "4 2" },
  { tone: "warn", dash: "1 4" },
];

/** The median that was paid, tick by tick, of what is traded most. */
export function paidSeries(figures: Priced): readonly ChartSeries[] {
  return pricesOf(figures)
    .slice(0, LOOKS.length)
    .map(({ kind, sells }, index) => ({
      id: `${kind} ${sells}`,
      label: `${kind}, ${sells}`,
      ...(LOOKS[index] ?? { tone: "neutral" }),
      points: figures.flatMap(({ tick, prices }) =>
        prices
          .filter((one) => one.kind === kind && one.sells === sells)
          .map((one) => [tick, one.median] as const),
      ),
    }));
}
