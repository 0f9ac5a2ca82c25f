import type { Shape } from "@/client/types";
import { dollars } from "@/ui/amounts";
import { Button } from "@/ui/Button";
import { budgetEnd, budgetWords, micro, usdOf } from "./amounts";
import { Limit } from "./Limit";

interface BudgetLimitProps {
  readonly budget: string | null;
  readonly inForce: string | null;
  /** Micro-dollars that the ledger keeps to; null for none. */
  readonly capped: number | null;
  readonly used: number | null;
  readonly disabled: boolean;
  readonly onSave: (sliders: Partial<Shape<"Sliders">>) => void;
}

/** Dollars in cents; without a limit the slider stands at its end, and moving it sets one. */
export function BudgetLimit({ budget, inForce, capped, used, disabled, onSave }: BudgetLimitProps) {
  const cap = micro(budget);
  const holds = micro(inForce);
  const end = budgetEnd(cap, used ?? 0);
  const isLess = holds !== null && (cap === null || holds < cap);
  const note = isLess
    ? `A membrane allows less: ${dollars(holds)}.`
    : capped !== null && capped !== cap
      ? `${dollars(capped)} are in force, set with it when it was made; what you set here takes their place.`
      : undefined;
  return (
    <div>
      <Limit
        label="Budget"
        min={0}
        max={end}
        value={cap === null ? end : Math.round(cap / 10_000)}
        words={(cents) =>
          // Where nothing moved the exact amount counts, not the cent that the slider can show.
          cents === (cap === null ? end : Math.round(cap / 10_000))
            ? budgetWords(cap, used)
            : budgetWords(cents * 10_000, used)
        }
        used={used === null ? undefined : used / 10_000}
        usedText={`${dollars(used ?? 0)} used`}
        note={note}
        disabled={disabled}
        onSave={(cents) => onSave({ budget_usd: usdOf(cents) })}
      />
      {cap !== null && !disabled && (
        <Button
          variant="quiet"
          size="small"
          className="-mt-1 -ml-2"
          onClick={() => onSave({ budget_usd: null })}
        >
          Lift the budget
        </Button>
      )}
    </div>
  );
}
