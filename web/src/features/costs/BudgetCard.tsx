import type { ReactNode } from "react";
import type { Shape } from "@/client/types";
import { Link } from "@/shell/Link";
import { href } from "@/shell/route";
import { useUi } from "@/state/ui";
import { dollars, whole } from "@/ui/amounts";
import { Meter } from "@/ui/Meter";

type Tenant = Shape<"TenantShown">;

interface BudgetCardProps {
  readonly tenant: Tenant;
  /** Calls whose price nobody knows. */
  readonly unpriced: number;
}

/** What the tenant may spend, has spent, and what is left. */
export function BudgetCard({ tenant, unpriced }: BudgetCardProps) {
  const isAdmin = useUi((state) => state.me?.role === "admin");
  const { budget_microusd: budget, available_microusd: left } = tenant;
  const used = tenant.spent_microusd + tenant.held_microusd;
  return (
    <section aria-label="Budget" className="rounded-card border border-line bg-panel p-4">
      <dl className="flex flex-wrap gap-x-8 gap-y-2">
        <Figure label="left">
          {left === null ? "no limit" : left < 0 ? `${dollars(-left)} over` : dollars(left)}
        </Figure>
        <Figure label="spent">{dollars(tenant.spent_microusd)}</Figure>
        <Figure label="held for calls on their way">{dollars(tenant.held_microusd)}</Figure>
        {tenant.debt_microusd > 0 && <Figure label="debt">{dollars(tenant.debt_microusd)}</Figure>}
        <Figure label="budget">{budget === null ? "none" : dollars(budget)}</Figure>
      </dl>
      {budget === null ? (
        <p className="mt-2 text-ink-2">
          No budget stops this tenant.{" "}
          {isAdmin ? (
            <Link to={href("settings")} className="text-accent underline">
              Set one in the settings
            </Link>
          ) : (
            "An admin sets one in the settings"
          )}
          ; runs see it at their next step.
        </p>
      ) : (
        <Meter
          label="Budget used"
          value={used}
          max={budget}
          valueText={`${dollars(used)} of ${dollars(budget)}`}
          tone="money"
          className="mt-3 h-2"
        />
      )}
      {left !== null && left < 0 && (
        <p className="mt-2 text-warn">
          A provider billed more than was reserved, and the budget is exceeded: nothing more is paid until it
          is raised. What is added pays the debt first.
        </p>
      )}
      {unpriced > 0 && (
        <p className="mt-2 text-warn">
          {whole(unpriced)} {unpriced === 1 ? "call has" : "calls have"} no known price and are in none of
          these sums.
        </p>
      )}
    </section>
  );
}

function Figure({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  return (
    <div className="flex flex-col-reverse">
      <dt className="text-11 text-ink-3">{label}</dt>
      <dd className="font-mono text-20 tabular-nums">{children}</dd>
    </div>
  );
}
