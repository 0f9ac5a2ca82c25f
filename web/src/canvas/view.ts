import type { Viewport } from "@xyflow/react";
import type { Box } from "./layout/box";

/** What commands can do with the canvas while it is on the screen. */
export interface CanvasView {
  zoomBy(factor: number): void;
  fit(): void;
  followNewest(): void;
  panBy(x: number, y: number): void;
  show(node: string): void;
  showBox(box: Box): void;
  focusSearch(): void;
}

let current: CanvasView | null = null;

export function canvasView(): CanvasView | null {
  return current;
}

export function setCanvasView(view: CanvasView | null): void {
  current = view;
}

interface Left {
  readonly at: Viewport;
  readonly size: { readonly width: number; readonly height: number };
  /** The goal whose canvas it was; "" for everything. */
  readonly mission: string;
}

let left: Left | null = null;

/** Where somebody had moved the view to when this canvas was left: the next visit begins there. */
export function leftAt(mission: string): Left | null {
  return left?.mission === mission ? left : null;
}

export function leave(at: Left | null): void {
  left = at;
}

/** Brings the newest goal into view as soon as it has something to show, wherever one looked before. */
export function showNewest(): void {
  left = null;
  current?.followNewest();
}

let wanted = "";

/** Puts a node into the middle as soon as it is there. */
export function bringIntoView(node: string): void {
  wanted = node;
}

/** The node that is wanted, if it is among these; it is wanted only once. */
export function takeWanted(there: { has(node: string): boolean }): string {
  if (wanted === "" || !there.has(wanted)) return "";
  const node = wanted;
  wanted = "";
  return node;
}
