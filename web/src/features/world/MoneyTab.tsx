import { useMemo, useState } from "react";
import { dollars, whole } from "@/ui/amounts";
import { LineChart } from "@/ui/LineChart";
import { Select } from "@/ui/Select";
import { EmptyState } from "@/ui/EmptyState";
import { useWorldFigures } from "@/state/useWorldFigures";
import { balanceSeries, giniSeries, sumsOf } from "./series";
import { Read } from "./Read";
import type { WorldPart } from "./tab";

const SPANS = [50, 200, 1000, 5000] as const;
const MANY = 100;

/** How scrip is spread, and how that changes: Gini coefficient, balances, where all of it is. */
export function MoneyTab({ world, asOf, agent }: WorldPart) {
  const [span, setSpan] = useState<number>(200);
  const isNamed = world.agents > MANY && agent !== "";
  const query = useWorldFigures(world.id, { span, ...(isNamed && { agent }) });
  const figures = useMemo(
    () => (query.data ?? []).filter((one) => asOf === null || one.tick <= asOf),
    [query.data, asOf],
  );
  const gini = useMemo(() => giniSeries(figures), [figures]);
  const balances = useMemo(() => balanceSeries(figures, agent), [figures, agent]);
  const sums = sumsOf(figures);
  return (
    <Read what="the figures" query={query}>
      {() =>
        sums === null ? (
          <EmptyState title="No tick has passed">
            Pass one: balances and prices are drawn from then on.
          </EmptyState>
        ) : (
          <div className="flex flex-col gap-4 p-4">
            <div className="flex flex-wrap items-end gap-x-6 gap-y-2">
              <Select
                label="Ticks that are drawn"
                value={String(span)}
                options={SPANS.map((one) => ({ value: String(one), label: `the last ${whole(one)}` }))}
                onChange={(chosen) => setSpan(Number(chosen))}
              />
              <dl className="flex flex-wrap gap-x-6 gap-y-1 text-12">
                {[
                  ["with agents", whole(sums.last.agents)],
                  ["with services", whole(sums.last.services)],
                  ["with others", whole(sums.last.others)],
                  ["set aside", whole(sums.last.held)],
                  ["minted", whole(sums.minted)],
                  ["trades", `${whole(sums.trades)} for ${whole(sums.volume)} scrip`],
                  ["refused", whole(sums.rejected)],
                  ["models", `${dollars(sums.costMicrousd)}, ${whole(sums.tokens)} tokens`],
                ].map(([name, value]) => (
                  <div key={name}>
                    <dt className="text-11 text-ink-3">{name}</dt>
                    <dd className="num">{value}</dd>
                  </div>
                ))}
              </dl>
            </div>
            <LineChart
              label="Gini coefficient of balances: 0 if all agents have the same, near 1 if one has everything"
              xName="tick"
              series={gini}
              from={0}
              format={(value) => value.toFixed(3)}
            />
            <LineChart
              label={
                world.agents > MANY
                  ? "Balances in scrip: the median, the richest, and the chosen agent"
                  : "Balances in scrip: the median, the richest, the chosen agent, and thinly all others"
              }
              xName="tick"
              series={balances}
              from={0}
              height={240}
              format={whole}
            />
            {agent === "" && (
              <p className="text-12 text-ink-2">Choose an agent in the table to see its line.</p>
            )}
          </div>
        )
      }
    </Read>
  );
}
