import { useMemo } from "react";
import { costsOver } from "@/projection/rowsLedger";
import { vitals } from "@/projection/vitals";
import { useEvents, useProjection } from "@/state/log";
import { dollars } from "@/ui/amounts";
import { EmptyState } from "@/ui/EmptyState";
import { Split } from "@/ui/Split";
import { Accounts } from "./Accounts";
import { CostChart } from "./CostChart";
import { LedgerLines } from "./LedgerLines";
import { useLedger } from "./useLedger";

/** Money and counters: each entry on the left; who holds what, and what it came to, on the right. */
export function LedgerTab() {
  const books = useLedger();
  const events = useEvents();
  const points = useMemo(() => costsOver(events), [events]);
  const { spentMicrousd, heldMicrousd, budgetMicrousd } = useProjection(vitals);
  if (books.lines.length === 0 && points.length === 0 && books.accounts.length === 0)
    return (
      <EmptyState title="Nothing was spent yet">
        Launch a goal: what each call holds, pays and gives back is written down here.
      </EmptyState>
    );
  return (
    <Split
      label="Width of the entries"
      initial={64}
      first={<LedgerLines lines={books.lines} />}
      second={
        <div
          tabIndex={0}
          className="flex h-full flex-col gap-3 overflow-auto px-4 py-2 -outline-offset-2 scroll-thin"
        >
          <section aria-label="Costs over time">
            <p className="text-12 text-ink-2">
              <span className="num text-ink">{dollars(spentMicrousd)}</span> spent,{" "}
              <span className="num text-ink">{dollars(heldMicrousd)}</span> held
              {budgetMicrousd !== null && (
                <>
                  ,{" "}
                  <span className="num text-ink">
                    {dollars(budgetMicrousd - spentMicrousd - heldMicrousd)}
                  </span>{" "}
                  left
                </>
              )}
            </p>
            <CostChart points={points} />
          </section>
          <Accounts books={books} />
        </div>
      }
    />
  );
}
