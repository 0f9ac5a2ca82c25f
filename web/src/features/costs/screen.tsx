import { useMemo } from "react";
import { inWords } from "@/client/http";
import type { Graph } from "@/projection/graph";
import { href, navigate, useRoute } from "@/shell/route";
import { useProjection } from "@/state/log";
import { useUi } from "@/state/ui";
import { dollars } from "@/ui/amounts";
import { EmptyState } from "@/ui/EmptyState";
import { ErrorState } from "@/ui/ErrorState";
import { CostsIcon } from "@/ui/icons/icons";
import { PageHead } from "@/ui/PageHead";
import { Select } from "@/ui/Select";
import { Skeleton } from "@/ui/Skeleton";
import { BudgetCard } from "./BudgetCard";
import { CostTable } from "./CostTable";
import { DayChart } from "./DayChart";
import { byAgent, byDay, byGoal, byModel } from "./group";
import { useCosts } from "./useCosts";

const PERIODS = [
  { value: "1", label: "Today" },
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
] as const;
const USUAL = "30";

const unpricedOf = (graph: Graph) => graph.costs.total.unpriced;

/** What was spent, by whom, on what and when; and what is left. */
export default function CostsScreen() {
  const { query } = useRoute();
  const period = PERIODS.find((one) => one.value === query["days"])?.value ?? USUAL;
  const { spending, tenant, error, isOld, retry } = useCosts(Number(period));
  const goals = useProjection(byGoal);
  const unpriced = useProjection(unpricedOf);
  const isPast = useUi((state) => state.travel !== null);
  const grouped = useMemo(() => {
    const items = spending?.items ?? [];
    const nowUs = Date.now() * 1000;
    return {
      agents: byAgent(items),
      models: byModel(items),
      days: byDay(items, spending?.since_us ?? nowUs, nowUs),
    };
  }, [spending]);

  if (error !== null) {
    const { title, advice } = inWords(error);
    return <ErrorState title={title} advice={advice} onRetry={retry} />;
  }
  if (spending === undefined || tenant === undefined) return <Skeleton label="costs" rows={8} />;
  const isNothing = spending.items.length === 0;
  return (
    <div aria-busy={isOld} className="flex min-h-full flex-col">
      <PageHead
        title="Costs"
        note={`${dollars(spending.total_microusd)} in ${period === "1" ? "this day" : `${period} days`}${spending.is_cut ? ", of the newest lines alone: there are more than one answer holds" : ""}`}
      >
        <Select
          bare
          label="Time"
          value={period}
          options={PERIODS}
          onChange={(days) =>
            navigate(href("costs", null, days === USUAL ? {} : { days }), { replace: true })
          }
        />
      </PageHead>
      {isPast && (
        <p className="px-4 pb-2 text-12 text-warn">
          The sums are of now and do not travel in time; “By goal” is of the moment that you look at.
        </p>
      )}
      <div className="grid min-w-0 gap-3 px-4 pb-4 desktop:grid-cols-2">
        <div className="desktop:col-span-2">
          <BudgetCard tenant={tenant} unpriced={unpriced} />
        </div>
        {isNothing ? (
          <div className="py-8 desktop:col-span-2">
            <EmptyState title="Nothing was spent in this time" icon={<CostsIcon size={28} />}>
              Give a goal, or choose a longer time above: each call of a model is counted here.
            </EmptyState>
          </div>
        ) : (
          <>
            <div className="desktop:col-span-2">
              <DayChart days={grouped.days} />
            </div>
            <CostTable title="By agent" head="Agent" rows={grouped.agents} />
            <CostTable title="By model" head="Model" rows={grouped.models} />
          </>
        )}
        {goals.length > 0 && (
          <div className="min-w-0 desktop:col-span-2">
            <CostTable
              title="By goal"
              note="with all its tasks, since it was given"
              head="Goal"
              rows={goals}
            />
          </div>
        )}
      </div>
    </div>
  );
}
