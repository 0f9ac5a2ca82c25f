import { compact, dollars } from "@/ui/amounts";
import { cx } from "@/ui/cx";
import { type CostRow, tokens } from "./group";

const HEIGHT = 64;

/** One column per day, with its value in words for whoever points at it or listens. */
export function DayChart({ days }: { readonly days: readonly CostRow[] }) {
  const cost = Math.max(0, ...days.map((day) => day.microusd));
  const isMoney = cost > 0;
  const most = isMoney ? cost : Math.max(1, ...days.map(tokens));
  const words = (day: CostRow) => `${day.label}: ${dollars(day.microusd)}, ${compact(tokens(day))} tokens`;
  const first = days[0];
  const last = days.at(-1);
  if (first === undefined || last === undefined) return null;
  return (
    <section aria-label="By day" className="rounded-card border border-line bg-panel px-4 py-2">
      <h2 className="text-13">
        By day{" "}
        <span className="ml-2 font-normal text-ink-3">
          {isMoney ? `the highest is ${dollars(most)}` : "nothing cost money: columns are tokens"}, days in
          UTC
        </span>
      </h2>
      <ul className="mt-2 flex items-end gap-px" style={{ height: HEIGHT }}>
        {days.map((day) => (
          <li key={day.id} title={words(day)} className="flex h-full min-w-0 flex-1 items-end">
            <span className="sr-only">{words(day)}</span>
            <Column share={(isMoney ? day.microusd : tokens(day)) / most} isMoney={isMoney} />
          </li>
        ))}
      </ul>
      <p aria-hidden="true" className="num flex justify-between text-ink-3">
        <span>{first.label}</span>
        {last.id !== first.id && <span>{last.label}</span>}
      </p>
    </section>
  );
}

function Column({ share, isMoney }: { readonly share: number; readonly isMoney: boolean }) {
  const height = share > 0 ? Math.max(2, share * HEIGHT) : 1;
  return (
    <svg
      aria-hidden="true"
      viewBox={`0 0 10 ${HEIGHT}`}
      preserveAspectRatio="none"
      className="h-full w-full max-w-16"
    >
      <rect
        y={HEIGHT - height}
        width="10"
        height={height}
        className={cx(share === 0 ? "fill-line" : isMoney ? "fill-money" : "fill-agent")}
      />
    </svg>
  );
}
