import { type KeyboardEvent, type PointerEvent, useId, useRef, useState } from "react";
import { areaOf, at, type ChartSeries, ticksOf } from "./chart";
import { cx } from "./cx";
import { TEXT_TONE } from "./tone";
import { useWidth } from "./useWidth";

interface LineChartProps {
  readonly label: string;
  /** What stands on the x axis, such as "tick". */
  readonly xName: string;
  readonly series: readonly ChartSeries[];
  readonly format?: (value: number) => string;
  /** Lowest value of the y axis; else that of the data. */
  readonly from?: number;
  readonly height?: number;
}

const WIDTH = 600;
/** Up to so many points each is marked, so that a single one can be seen. */
const DOTS_MAX = 60;
const PAD = { left: 44, right: 10, top: 8, bottom: 20 };

/**
 * Lines over whole numbers. A pointer or the arrow keys read the values at one place; they stand in words
 * below, so that nothing is told by colour alone.
 */
export function LineChart({ label, xName, series, format = String, from, height = 180 }: LineChartProps) {
  const id = useId();
  const [cursor, setCursor] = useState<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box, WIDTH);
  const area = areaOf(series, from);
  if (area === null) return <p className="p-3 text-12 text-ink-2">{label}: there is nothing to draw yet.</p>;
  const x = (value: number) =>
    PAD.left + ((value - area.x0) / Math.max(1, area.x1 - area.x0)) * (width - PAD.left - PAD.right);
  const y = (value: number) =>
    height - PAD.bottom - ((value - area.y0) / (area.y1 - area.y0)) * (height - PAD.top - PAD.bottom);
  const here = Math.min(area.x1, Math.max(area.x0, cursor ?? area.x1));
  const read = series
    .filter((one) => !one.quiet)
    .map((one) => ({ ...one, value: at(one, here) }))
    .filter((one) => one.value !== undefined);
  const words = `${xName} ${here}: ${read.map((one) => `${one.label} ${format(one.value ?? 0)}`).join(", ")}`;

  const onKeyDown = (event: KeyboardEvent) => {
    const next = {
      ArrowLeft: here - 1,
      ArrowRight: here + 1,
      PageDown: here - 10,
      PageUp: here + 10,
      Home: area.x0,
      End: area.x1,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    setCursor(Math.min(area.x1, Math.max(area.x0, next)));
  };
  const onPointerMove = (event: PointerEvent<SVGSVGElement>) => {
    const left = event.clientX - event.currentTarget.getBoundingClientRect().left - PAD.left;
    setCursor(Math.round(area.x0 + (left / (width - PAD.left - PAD.right)) * (area.x1 - area.x0)));
  };

  return (
    <figure className="m-0">
      <figcaption id={id} className="text-12 text-ink-2">
        {label}
      </figcaption>
      <div
        ref={box}
        role="slider"
        tabIndex={0}
        aria-labelledby={id}
        aria-valuemin={area.x0}
        aria-valuemax={area.x1}
        aria-valuenow={here}
        aria-valuetext={words}
        onKeyDown={onKeyDown}
        className="-outline-offset-1"
      >
        <svg
          aria-hidden="true"
          viewBox={`0 0 ${width} ${height}`}
          width={width}
          height={height}
          className="block"
          onPointerMove={onPointerMove}
          onPointerLeave={() => setCursor(null)}
        >
          {ticksOf(area.y0, area.y1).map((value) => (
            <g key={value}>
              <line x1={PAD.left} x2={width - PAD.right} y1={y(value)} y2={y(value)} stroke="var(--line)" />
              <text x={PAD.left - 6} y={y(value) + 4} textAnchor="end" fontSize="11" fill="var(--ink-2)">
                {format(value)}
              </text>
            </g>
          ))}
          {[area.x0, area.x1].map((value, index) => (
            <text
              key={index}
              x={x(value)}
              y={height - 5}
              textAnchor={index === 0 ? "start" : "end"}
              fontSize="11"
              fill="var(--ink-2)"
            >
              {value}
            </text>
          ))}
          {series.map((one) => (
            <g key={one.id} opacity={one.quiet ? 0.4 : 1} className={TEXT_TONE[one.tone]}>
              <polyline
                points={one.points.map(([px, py]) => `${x(px)},${y(py)}`).join(" ")}
                fill="none"
                stroke="currentColor"
                strokeWidth={one.quiet ? 1 : 2}
                strokeDasharray={one.dash}
              />
              {!one.quiet &&
                one.points.length <= DOTS_MAX &&
                one.points.map(([px, py]) => (
                  <circle key={px} cx={x(px)} cy={y(py)} r="2.5" fill="currentColor" />
                ))}
            </g>
          ))}
          <line x1={x(here)} x2={x(here)} y1={PAD.top} y2={height - PAD.bottom} stroke="var(--edge)" />
        </svg>
      </div>
      <p className="flex flex-wrap gap-x-4 text-12">
        <span className="num text-ink-2">
          {xName} {here}
        </span>
        {read.map((one) => (
          <span key={one.id} className="inline-flex items-center gap-1.5">
            <svg aria-hidden="true" width="16" height="4" className={cx("shrink-0", TEXT_TONE[one.tone])}>
              <line
                x1="0"
                x2="16"
                y1="2"
                y2="2"
                stroke="currentColor"
                strokeWidth="2"
                strokeDasharray={one.dash}
              />
            </svg>
            {one.label} <span className="num">{format(one.value ?? 0)}</span>
          </span>
        ))}
      </p>
    </figure>
  );
}
