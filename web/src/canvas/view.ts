import type { Box } from "./layout/box";

/** What commands can do with the canvas while it is on the screen. */
export interface CanvasView {
  zoomBy(factor: number): void;
  fit(): void;
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
