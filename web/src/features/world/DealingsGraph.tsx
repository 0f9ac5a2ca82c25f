import { cx } from "@/ui/cx";
import { type Dealing, type Spot, spotsOf } from "./dealings";

const SIZE = 470;
const RADIUS = 180;
const NAME_CHARS_MAX = 14;
const WIDTH_MAX = 5;

const place = (spot: Spot, radius: number) =>
  [SIZE / 2 + spot.x * radius, SIZE / 2 + spot.y * radius] as const;

/** Agents on a circle; lines for what was sold and, dashed, written. The table beside it says the same. */
export function DealingsGraph({
  dealings,
  agent,
}: {
  readonly dealings: readonly Dealing[];
  readonly agent: string;
}) {
  const spots = spotsOf(dealings);
  const isQuiet = (one: Dealing) => spots.has(agent) && one.from !== agent && one.to !== agent;
  return (
    <figure className="m-0 p-3">
      <svg
        role="img"
        aria-label={`Graph of trades and messages of ${spots.size} agents`}
        viewBox={`0 0 ${SIZE} ${SIZE}`}
        className="mx-auto block max-h-140 w-full max-w-140"
      >
        {dealings.map((one) => {
          const [from, to] = [spots.get(one.from), spots.get(one.to)];
          if (from === undefined || to === undefined) return null;
          return (
            <g key={one.id} opacity={isQuiet(one) ? 0.15 : 0.8}>
              {one.trades > 0 && <Line from={from} to={to} times={one.trades} bend={0.4} />}
              {one.messages > 0 && <Line from={from} to={to} times={one.messages} bend={0.7} isMessage />}
            </g>
          );
        })}
        {[...spots.values()].map((spot) => (
          <Name key={spot.agent} spot={spot} isChosen={spot.agent === agent} />
        ))}
      </svg>
      <figcaption className="text-center text-12 text-ink-2">
        <span className="text-money">Lines</span> are sales, <span className="text-agent">dashed ones</span>{" "}
        messages; the dot is at who bought or was written to.
      </figcaption>
    </figure>
  );
}

interface LineProps {
  readonly from: Spot;
  readonly to: Spot;
  readonly times: number;
  /** How far it keeps from the middle, so that a sale and a message of the same pair are two lines. */
  readonly bend: number;
  readonly isMessage?: boolean;
}

function Line({ from, to, times, bend, isMessage = false }: LineProps) {
  const [[x1, y1], [x2, y2]] = [place(from, RADIUS), place(to, RADIUS)];
  const [mx, my] = place({ agent: "", x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 }, RADIUS * bend);
  return (
    <g className={isMessage ? "text-agent" : "text-money"}>
      <path
        d={`M${x1},${y1} Q${mx},${my} ${x2},${y2}`}
        fill="none"
        stroke="currentColor"
        strokeWidth={Math.min(WIDTH_MAX, 1 + Math.log2(times))}
        strokeDasharray={isMessage ? "5 4" : undefined}
      />
      <circle cx={x2} cy={y2} r="4" fill="currentColor" />
    </g>
  );
}

function Name({ spot, isChosen }: { readonly spot: Spot; readonly isChosen: boolean }) {
  const [x, y] = place(spot, RADIUS + 12);
  const side = Math.abs(spot.x) < 0.2 ? "middle" : spot.x > 0 ? "start" : "end";
  const name =
    spot.agent.length > NAME_CHARS_MAX ? `${spot.agent.slice(0, NAME_CHARS_MAX - 1)}…` : spot.agent;
  return (
    <text
      x={x}
      y={y + 4 + 6 * spot.y}
      textAnchor={side}
      fontSize="12"
      className={cx("fill-current", isChosen ? "font-semibold text-ink" : "text-ink-2")}
    >
      <title>{spot.agent}</title>
      {name}
    </text>
  );
}
