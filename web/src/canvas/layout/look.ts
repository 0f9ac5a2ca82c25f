import type { Viewport } from "@xyflow/react";
import { type Box, grown } from "./box";

export const ZOOM_MIN = 0.04;
export const ZOOM_MAX = 2;
const FIT_ZOOM_MAX = 1;
/** Of the window's top: there the search lies over the plane. */
const HEAD_PX = 36;

interface Size {
  readonly width: number;
  readonly height: number;
}

/** The part of the plane that is seen. */
export function seenAt({ x, y, zoom }: Viewport, { width, height }: Size): Box {
  return { x: -x / zoom, y: -y / zoom, width: width / zoom, height: height / zoom };
}

/** From where all of a box is seen, as near as that allows, and nothing of it below the search. */
export function fitted(box: Box, { width, height }: Size): Viewport {
  const room = grown(box, 40);
  const head = Math.min(HEAD_PX, height / 5);
  const free = height - head;
  const zoom = Math.max(ZOOM_MIN, Math.min(FIT_ZOOM_MAX, width / room.width, free / room.height));
  return {
    zoom,
    x: width / 2 - (room.x + room.width / 2) * zoom,
    y: head + free / 2 - (room.y + room.height / 2) * zoom,
  };
}

/** The view that somebody chose, in a window of another size: the same middle, and never an empty plane. */
export function resized(at: Viewport, was: Size, now: Size, bounds: Box | null): Viewport {
  const next = { ...at, x: at.x + (now.width - was.width) / 2, y: at.y + (now.height - was.height) / 2 };
  return bounds === null || meet(seenAt(next, now), bounds) ? next : fitted(bounds, now);
}

function meet(a: Box, b: Box): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}
