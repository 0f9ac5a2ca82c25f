import { create } from "zustand";
import { useUi } from "@/state/ui";
import { NOTHING_PENDING, type Pending } from "./scene";

type Places = ReadonlyMap<string, { readonly x: number; readonly y: number }>;

/** What this browser alone knows of the canvas. */
export interface CanvasState {
  /** Where people dragged nodes to, from the corner of their goal; kept in the browser, by tenant. */
  readonly moved: Places;
  /** The node that is being dragged, and where it is. */
  readonly drag: { readonly node: string; readonly x: number; readonly y: number } | null;
  /** Memberships that were asked for and that no event has told yet. */
  readonly pending: Pending;
}

export const useCanvas = create<CanvasState>()(() => ({
  moved: new Map(),
  drag: null,
  pending: NOTHING_PENDING,
}));

export const setCanvas = useCanvas.setState;

const MOVED_MAX = 5000;

function slot(): string {
  return `artelier.canvas.${useUi.getState().me?.tenant ?? ""}`;
}

/** Positions as far as they have the form that they should have. */
export function restoredPlaces(stored: string | null): Places {
  const places = new Map<string, { x: number; y: number }>();
  try {
    const value = JSON.parse(stored ?? "[]") as unknown;
    if (!Array.isArray(value)) return places;
    for (const one of value as unknown[]) {
      if (!Array.isArray(one)) continue;
      const [node, x, y] = one as unknown[];
      if (typeof node === "string" && Number.isFinite(x) && Number.isFinite(y))
        places.set(node, { x: Number(x), y: Number(y) });
    }
  } catch {
    // Whatever that was, everything stands where the layout puts it.
  }
  return places;
}

export function loadPlaces(): void {
  try {
    setCanvas({ moved: restoredPlaces(localStorage.getItem(slot())) });
  } catch {
    setCanvas({ moved: new Map() });
  }
}

export function moveNode(node: string, at: { readonly x: number; readonly y: number } | null): void {
  const moved = new Map(useCanvas.getState().moved);
  moved.delete(node);
  if (at !== null) moved.set(node, { x: Math.round(at.x), y: Math.round(at.y) });
  keep(new Map([...moved].slice(-MOVED_MAX)));
}

/** Everything stands where the layout puts it again. */
export function forgetPlaces(): void {
  keep(new Map());
}

function keep(moved: Places): void {
  setCanvas({ moved });
  try {
    localStorage.setItem(slot(), JSON.stringify([...moved].map(([node, { x, y }]) => [node, x, y])));
  } catch {
    // A browser that keeps nothing forgets the places with the page.
  }
}
