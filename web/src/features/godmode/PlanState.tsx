import { Status } from "@/ui/Badge";
import { type OpenPlan, planningWords } from "./plans";

/** Goals that are being planned. A plan that is ready waits above the screen, with all that waits for people. */
export function PlanState({ plans }: { readonly plans: readonly OpenPlan[] }) {
  const making = plans.filter((one) => !one.isReady);
  const first = making[0];
  return (
    <div aria-live="polite" className="shrink-0">
      {first !== undefined && (
        <span
          title={making.map((one) => one.run.goal).join("\n")}
          className="block max-w-50 truncate text-12"
        >
          <Status tone="agent">
            {planningWords(first)}
            {making.length > 1 && `, ${making.length} goals`}
          </Status>
        </span>
      )}
    </div>
  );
}
