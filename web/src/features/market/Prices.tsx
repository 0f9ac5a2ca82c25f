import { useMemo } from "react";
import { inWords } from "@/client/http";
import type { TickFigures } from "@/client/worlds";
import { whole } from "@/ui/amounts";
import { EmptyState } from "@/ui/EmptyState";
import { ErrorState } from "@/ui/ErrorState";
import { LineChart } from "@/ui/LineChart";
import { Skeleton } from "@/ui/Skeleton";
import { type Column, Table } from "@/ui/Table";
import { paidSeries, type PriceRow, pricesOf } from "./prices";

const COLUMNS: readonly Column<PriceRow>[] = [
  { id: "kind", label: "Kind", cell: (one) => one.kind, sortBy: (one) => one.kind },
  { id: "sells", label: "Sold as", cell: (one) => one.sells, sortBy: (one) => one.sells },
  {
    id: "trades",
    label: "Trades",
    cell: (one) => whole(one.trades),
    sortBy: (one) => one.trades,
    align: "right",
  },
  {
    id: "volume",
    label: "Scrip",
    cell: (one) => whole(one.volume),
    sortBy: (one) => one.volume,
    align: "right",
  },
  { id: "low", label: "Lowest", cell: (one) => whole(one.low), sortBy: (one) => one.low, align: "right" },
  { id: "last", label: "Last", cell: (one) => whole(one.last), sortBy: (one) => one.last, align: "right" },
  { id: "high", label: "Highest", cell: (one) => whole(one.high), sortBy: (one) => one.high, align: "right" },
];

interface PricesProps {
  readonly figures: readonly TickFigures[];
  readonly error: Error | null;
  readonly isPending: boolean;
}

/** What was paid, by kind and over time. */
export function Prices({ figures, error, isPending }: PricesProps) {
  const rows = useMemo(() => pricesOf(figures), [figures]);
  const series = useMemo(() => paidSeries(figures), [figures]);
  if (isPending && error === null) return <Skeleton label="the prices" rows={6} />;
  if (error !== null && figures.length === 0) {
    const { title, advice } = inWords(error);
    return <ErrorState title={title} advice={advice} />;
  }
  if (rows.length === 0) {
    return (
      <EmptyState title="Nothing was paid yet">
        Run some ticks: each sale sets a price that is drawn here.
      </EmptyState>
    );
  }
  return (
    <div className="flex flex-col gap-4 p-4">
      <LineChart
        label="Median price in scrip, at the ticks at which something was sold"
        xName="tick"
        series={series}
        from={0}
        height={220}
        format={whole}
      />
      <Table
        label="Prices by kind"
        columns={COLUMNS}
        rows={rows}
        rowId={(one) => `${one.kind} ${one.sells}`}
        className="!h-auto max-h-80"
      />
    </div>
  );
}
