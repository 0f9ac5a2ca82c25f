import { setUi } from "@/state/ui";
import { Button } from "@/ui/Button";
import { Status } from "@/ui/Badge";
import { type OpenPlan, planningWords } from "./plans";

/** Goals that are being planned, and plans that wait for a yes. */
export function PlanState({ plans }: { readonly plans: readonly OpenPlan[] }) {
  const ready = plans.filter((one) => one.isReady);
  const making = plans.find((one) => !one.isReady);
  const first = ready[0];
  return (
    <div aria-live="polite" className="flex shrink-0 items-center gap-2">
      {making !== undefined && (
        <span title={making.run.goal} className="max-w-50 truncate text-12">
          <Status tone="agent">{planningWords(making)}</Status>
        </span>
      )}
      {first !== undefined && (
        <Button onClick={() => setUi({ plan: first.run.id })} title={first.run.goal}>
          {ready.length === 1 ? "Review plan" : `Review plan, 1 of ${ready.length}`}
        </Button>
      )}
    </div>
  );
}
