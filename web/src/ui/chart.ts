import type { Tone } from "./tone";

export interface ChartSeries {
  readonly id: string;
  readonly label: string;
  readonly tone: Tone;
  /** Ascending by x. */
  readonly points: readonly (readonly [x: number, y: number])[];
  /** A thin line in the background that is not read out. */
  readonly quiet?: boolean;
  /** As of SVG, so that lines differ by more than their colour. */
  readonly dash?: string;
}

export interface Area {
  readonly x0: number;
  readonly x1: number;
  readonly y0: number;
  readonly y1: number;
}

/** What has to be in sight; null if there is no point. */
export function areaOf(series: readonly ChartSeries[], from?: number): Area | null {
  let [x0, x1, y0, y1] = [Infinity, -Infinity, from ?? Infinity, from ?? -Infinity];
  for (const { points } of series) {
    for (const [x, y] of points) {
      x0 = Math.min(x0, x);
      x1 = Math.max(x1, x);
      y0 = Math.min(y0, y);
      y1 = Math.max(y1, y);
    }
  }
  if (x1 < x0) return null;
  if (y0 === y1) y1 = y0 + 1;
  const step = stepOf(y0, y1);
  return { x0, x1, y0, y1: round(Math.ceil(y1 / step - 1e-9) * step) };
}

function round(value: number): number {
  return Number(value.toPrecision(12));
}

/** A round distance between marks, such that there are three to six. */
function stepOf(low: number, high: number): number {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough * (1 - 1e-9)) ?? power;
}

/** Round values from low to high. */
export function ticksOf(low: number, high: number): readonly number[] {
  const step = stepOf(low, high);
  const ticks: number[] = [];
  for (let n = Math.ceil(low / step); n * step <= high + step / 1e6; n += 1) {
    ticks.push(round(n * step));
  }
  return ticks;
}

/** The value at a place: that of the last point up to it. */
export function at({ points }: ChartSeries, x: number): number | undefined {
  return points.findLast(([px]) => px <= x)?.[1];
}
