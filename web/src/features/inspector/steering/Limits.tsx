import type { Shape } from "@/client/types";
import { BudgetLimit } from "./BudgetLimit";
import { byteStops, bytesWords, DEPTH, depthWords, ITERATIONS, SAFETY, safetyWords } from "./amounts";
import { Limit } from "./Limit";

interface LimitsProps {
  readonly sliders: Shape<"Sliders">;
  /** What counts together with membranes. */
  readonly inForce: Shape<"Sliders">;
  readonly disabled: boolean;
  /** Of the budget's scope, in micro-dollars. */
  readonly capped: number | null;
  /** Micro-dollars; null if it is not known. */
  readonly used: number | null;
  readonly iteration: number;
  readonly onSave: (sliders: Partial<Shape<"Sliders">>) => void;
}

/** The limits that the kernel keeps, each with what is used of it. */
export function Limits({ sliders, inForce, disabled, capped, used, iteration, onSave }: LimitsProps) {
  const stops = byteStops(sliders.output_bytes);
  const less = (is: boolean, words: string) => (is ? `A membrane allows less: ${words}.` : undefined);
  return (
    <div className="flex flex-col gap-2">
      <BudgetLimit
        budget={sliders.budget_usd}
        inForce={inForce.budget_usd}
        {...{ capped, used, disabled, onSave }}
      />
      <Limit
        label="Iterations"
        {...ITERATIONS}
        value={sliders.iterations}
        words={(value) => (iteration > 0 ? `${value}, ${iteration} begun` : String(value))}
        used={iteration > 0 ? iteration : undefined}
        usedText={`${iteration} begun`}
        note={less(inForce.iterations < sliders.iterations, String(inForce.iterations))}
        disabled={disabled}
        onSave={(iterations) => onSave({ iterations })}
      />
      <Limit
        label="Delegation depth"
        {...DEPTH}
        value={sliders.delegation_depth}
        words={depthWords}
        note={less(inForce.delegation_depth < sliders.delegation_depth, depthWords(inForce.delegation_depth))}
        disabled={disabled}
        onSave={(delegation_depth) => onSave({ delegation_depth })}
      />
      <Limit
        label="Safety"
        min={0}
        max={SAFETY.length - 1}
        value={SAFETY.indexOf(sliders.safety)}
        words={(value) => safetyWords(SAFETY[value] ?? "open")}
        note={less(inForce.safety !== sliders.safety, safetyWords(inForce.safety))}
        disabled={disabled}
        onSave={(value) => onSave({ safety: SAFETY[value] ?? "open" })}
      />
      <Limit
        label="Output size"
        min={0}
        max={stops.length - 1}
        value={stops.indexOf(sliders.output_bytes)}
        words={(value) => `at most ${bytesWords(stops[value] ?? sliders.output_bytes)}`}
        note={less(inForce.output_bytes < sliders.output_bytes, bytesWords(inForce.output_bytes))}
        disabled={disabled}
        onSave={(value) => onSave({ output_bytes: stops[value] ?? sliders.output_bytes })}
      />
    </div>
  );
}
