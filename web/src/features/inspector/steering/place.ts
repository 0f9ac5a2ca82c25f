export interface Place {
  readonly x: number;
  readonly y: number;
}

export const STEP = 0.05;
/** With Shift: from one level of the policy to the next. */
export const BIG_STEP = 0.25;

function within(value: number): number {
  return Math.round(Math.min(1, Math.max(0, value)) * 100) / 100;
}

/** Where a key moves the puck; null for keys that do not. */
export function moved(place: Place, key: string, isBig: boolean): Place | null {
  const by = isBig ? BIG_STEP : STEP;
  const moves: Readonly<Record<string, readonly [number, number]>> = {
    ArrowLeft: [-by, 0],
    ArrowRight: [by, 0],
    ArrowUp: [0, by],
    ArrowDown: [0, -by],
  };
  const move = moves[key];
  return move === undefined ? null : { x: within(place.x + move[0]), y: within(place.y + move[1]) };
}

/** Where a pointer puts it: x from the left, y from below. */
export function placeAt(
  box: { readonly left: number; readonly top: number; readonly width: number; readonly height: number },
  clientX: number,
  clientY: number,
): Place {
  return {
    x: within((clientX - box.left) / Math.max(1, box.width)),
    y: within(1 - (clientY - box.top) / Math.max(1, box.height)),
  };
}

export function isSame(a: Place, b: Place): boolean {
  return a.x === b.x && a.y === b.y;
}
