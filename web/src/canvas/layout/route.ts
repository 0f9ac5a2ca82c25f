import { type Box, centre } from "./box";

interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Route {
  /** The `d` of an SVG path. */
  readonly path: string;
  readonly middle: Point;
}

const ASIDE = 18;

/** From left side to left side, for boxes that stand below each other with others between. */
export function routeAside(from: Box, to: Box): Route {
  const [a, b] = [centre(from), centre(to)];
  const x = Math.round(Math.min(from.x, to.x) - ASIDE);
  const path = `M${Math.round(from.x)} ${Math.round(a.y)} C${x} ${Math.round(a.y)} ${x} ${Math.round(b.y)} ${Math.round(to.x)} ${Math.round(b.y)}`;
  return { path, middle: { x, y: (a.y + b.y) / 2 } };
}

/** A curve from one box to another, leaving and arriving at the sides that face each other. */
export function routeBetween(from: Box, to: Box): Route {
  const [a, b] = [centre(from), centre(to)];
  const across = Math.abs(b.x - a.x) - (from.width + to.width) / 2;
  const down = Math.abs(b.y - a.y) - (from.height + to.height) / 2;
  const isSideways = across >= down;
  const start = isSideways
    ? { x: b.x > a.x ? from.x + from.width : from.x, y: a.y }
    : { x: a.x, y: b.y > a.y ? from.y + from.height : from.y };
  const end = isSideways
    ? { x: b.x > a.x ? to.x : to.x + to.width, y: b.y }
    : { x: b.x, y: b.y > a.y ? to.y : to.y + to.height };
  const bend = Math.max(24, (isSideways ? Math.abs(end.x - start.x) : Math.abs(end.y - start.y)) / 2);
  const sign = isSideways ? Math.sign(b.x - a.x) || 1 : Math.sign(b.y - a.y) || 1;
  const one = isSideways
    ? { x: start.x + sign * bend, y: start.y }
    : { x: start.x, y: start.y + sign * bend };
  const two = isSideways ? { x: end.x - sign * bend, y: end.y } : { x: end.x, y: end.y - sign * bend };
  const at = (p: Point) => `${Math.round(p.x)} ${Math.round(p.y)}`;
  return {
    path: `M${at(start)} C${at(one)} ${at(two)} ${at(end)}`,
    middle: {
      x: (start.x + 3 * one.x + 3 * two.x + end.x) / 8,
      y: (start.y + 3 * one.y + 3 * two.y + end.y) / 8,
    },
  };
}
