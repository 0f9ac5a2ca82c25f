import { dollars } from "@/ui/amounts";
import { cx } from "@/ui/cx";
import type { Decision, Pair } from "./future";

const PAIRS_MAX = 200;

/** What was decided at each place, left and right; where the two differ it is marked. */
export function DecisionPairs({ pairs }: { readonly pairs: readonly Pair[] }) {
  const parting = pairs.findIndex((pair) => !pair.isSame);
  return (
    <section aria-labelledby="futures-decisions">
      <h2 id="futures-decisions" className="mt-4 mb-1.5 text-13 font-semibold">
        Decisions
      </h2>
      <ol className="flex flex-col gap-1.5">
        {pairs.slice(0, PAIRS_MAX).map((pair, index) => (
          <li key={pair.key}>
            {index === parting && (
              <p className="flex items-center gap-2 py-1 text-12 text-warn">
                <span className="flex-1 border-t border-dashed border-current" />
                here they part
                <span className="flex-1 border-t border-dashed border-current" />
              </p>
            )}
            <div className="grid grid-cols-2 gap-3">
              <Side decision={pair.a} isSame={pair.isSame} />
              <Side decision={pair.b} isSame={pair.isSame} />
            </div>
          </li>
        ))}
      </ol>
      {pairs.length > PAIRS_MAX && (
        <p className="mt-1 text-12 text-ink-2">
          The first {PAIRS_MAX} of {pairs.length} are shown.
        </p>
      )}
    </section>
  );
}

function Side({ decision, isSame }: { readonly decision: Decision | null; readonly isSame: boolean }) {
  if (decision === null)
    return (
      <p className="rounded-control border border-dashed border-line px-2.5 py-1.5 text-12 text-ink-3">
        nothing here
      </p>
    );
  return (
    <div
      className={cx(
        "min-w-0 rounded-control border px-2.5 py-1.5 text-12",
        isSame ? "border-line text-ink-2" : "border-warn",
      )}
    >
      <p className="flex items-baseline gap-2">
        <span className="num">{decision.key}</span>
        <span className="min-w-0 flex-1 truncate font-medium" title={decision.title}>
          {decision.title}
        </span>
        <span className="num text-ink-2">{dollars(decision.microusd)}</span>
      </p>
      {decision.why !== "" && <p className="line-clamp-2 break-words text-ink-2">{decision.why}</p>}
      {decision.result !== "" && <p className="break-words">{decision.result}</p>}
    </div>
  );
}
