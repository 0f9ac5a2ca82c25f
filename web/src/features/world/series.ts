import type { TickFigures } from "@/client/worlds";
import type { ChartSeries } from "@/ui/chart";

type Figures = readonly TickFigures[];

export function giniSeries(figures: Figures): readonly ChartSeries[] {
  return [
    { id: "gini", label: "Gini", tone: "money", points: figures.map((one) => [one.tick, one.gini] as const) },
  ];
}

/** The median and the richest; thinly every agent that is told of; the chosen one on top. */
export function balanceSeries(figures: Figures, chosen: string): readonly ChartSeries[] {
  const lines = new Map<string, (readonly [number, number])[]>();
  for (const { tick, balances } of figures) {
    for (const [id, balance] of Object.entries(balances)) {
      const line = lines.get(id) ?? [];
      line.push([tick, balance]);
      lines.set(id, line);
    }
  }
  const mine = lines.get(chosen);
  return [
    ...[...lines]
      .filter(([id]) => id !== chosen)
      .map(([id, points]): ChartSeries => ({ id, label: id, tone: "neutral", points, quiet: true })),
    {
      id: " richest",
      label: "richest",
      tone: "artifact",
      dash: "2 3",
      points: figures.map((one) => [one.tick, one.richest] as const),
    },
    {
      id: " median",
      label: "median",
      tone: "money",
      dash: "7 4",
      points: figures.map((one) => [one.tick, one.median] as const),
    },
    ...(mine === undefined ? [] : [{ id: chosen, label: chosen, tone: "agent", points: mine } as const]),
  ];
}

interface Sums {
  readonly last: TickFigures;
  readonly minted: number;
  readonly trades: number;
  readonly volume: number;
  readonly rejected: number;
  readonly tokens: number;
  readonly costMicrousd: number;
}

/** All of these ticks together; null if there is none. */
export function sumsOf(figures: Figures): Sums | null {
  const last = figures.at(-1);
  if (last === undefined) return null;
  const sum = (of: (one: TickFigures) => number) => figures.reduce((total, one) => total + of(one), 0);
  return {
    last,
    minted: sum((one) => one.minted),
    trades: sum((one) => one.trades),
    volume: sum((one) => one.volume),
    rejected: sum((one) => one.rejected),
    tokens: sum((one) => one.tokens),
    costMicrousd: sum((one) => one.cost_microusd),
  };
}
