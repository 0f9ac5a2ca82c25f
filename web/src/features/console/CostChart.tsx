import { counted } from "@/projection/counted";
import { type CostPoint } from "@/projection/rowsLedger";
import { compact, dollars } from "@/ui/amounts";
import { clock } from "@/ui/time";

const WIDTH = 320;
const HEIGHT = 56;
const POINTS_MAX = 400;

/** What was spent, added up over time; tokens where nothing had a price. */
export function CostChart({ points }: { readonly points: readonly CostPoint[] }) {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined)
    return <p className="text-12 text-ink-2">No call was made yet.</p>;
  const isMoney = last.microusd > 0;
  const valueOf = (point: CostPoint) => (isMoney ? point.microusd : point.tokens);
  const most = Math.max(1, valueOf(last));
  const span = Math.max(1, last.atUs - first.atUs);
  const every = Math.max(1, Math.ceil(points.length / POINTS_MAX));
  const path = points
    .filter((point, index) => index % every === 0 || point === last)
    .map((point) => {
      const x = ((point.atUs - first.atUs) / span) * WIDTH;
      const y = HEIGHT - (valueOf(point) / most) * (HEIGHT - 4) - 2;
      return `${x.toFixed(1)},${y.toFixed(1)}`;
    });
  const total = isMoney ? dollars(last.microusd) : compact(last.tokens);
  return (
    <figure>
      <svg
        role="img"
        aria-label={`${total} ${isMoney ? "spent" : "tokens"} in ${counted(points.length, "call")}`}
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        className="h-14 w-full text-money"
      >
        <polyline
          points={path.join(" ")}
          fill="none"
          stroke="currentColor"
          strokeWidth={1.5}
          vectorEffect="non-scaling-stroke"
        />
      </svg>
      <figcaption className="flex justify-between gap-3 text-11 text-ink-3">
        <span className="num">{clock(first.atUs)}</span>
        <span>
          {isMoney ? "spent" : "tokens; nothing had a price"}: <span className="num text-ink-2">{total}</span>
        </span>
        <span className="num">{clock(last.atUs)}</span>
      </figcaption>
    </figure>
  );
}
