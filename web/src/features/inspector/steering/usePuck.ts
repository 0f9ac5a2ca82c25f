import { type KeyboardEvent, type PointerEvent, useEffect, useRef, useState } from "react";
import { isSame, moved, type Place, placeAt } from "./place";

/** Arrow keys that follow each other are one change. */
export const REST_MS = 700;

interface PuckOptions {
  readonly saved: Place;
  readonly disabled: boolean;
  readonly onMove: (place: Place | null) => void;
  readonly onCommit: (place: Place) => void;
}

interface Puck {
  readonly place: Place;
  readonly ghost: Place | null;
  readonly handlers: {
    readonly onKeyDown: (event: KeyboardEvent) => void;
    readonly onBlur: () => void;
    readonly onPointerDown: (event: PointerEvent<HTMLElement>) => void;
    readonly onPointerMove: (event: PointerEvent<HTMLElement>) => void;
    readonly onPointerUp: () => void;
    readonly onPointerCancel: () => void;
  };
}

/** A puck that is dragged, or moved by arrow keys, and is told where it comes to rest. */
export function usePuck({ saved, disabled, onMove, onCommit }: PuckOptions): Puck {
  const [draft, setDraft] = useState<Place | null>(null);
  const [history, setHistory] = useState<{ readonly now: Place; readonly before: Place | null }>({
    now: saved,
    before: null,
  });
  const dragging = useRef(false);
  const latest = useRef<Place | null>(null);
  const commit = useRef(onCommit);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  if (!isSame(history.now, saved)) setHistory({ now: saved, before: history.now });

  const move = (place: Place) => {
    latest.current = place;
    setDraft(place);
    onMove(place);
  };
  const rest = (keep: boolean) => {
    clearTimeout(timer.current);
    const place = latest.current;
    latest.current = null;
    setDraft(null);
    onMove(null);
    if (keep && place !== null && !isSame(place, saved)) onCommit(place);
  };

  useEffect(() => {
    commit.current = onCommit;
  });
  useEffect(() => {
    return () => {
      // Whoever leaves within the rest of a key has moved the puck all the same.
      clearTimeout(timer.current);
      if (latest.current !== null && !dragging.current) commit.current(latest.current);
    };
  }, []);

  const place = draft ?? saved;
  return {
    place,
    ghost: draft === null ? history.before : saved,
    handlers: {
      onKeyDown: (event) => {
        if (event.key === "Escape" && latest.current !== null) {
          event.preventDefault();
          rest(false);
          return;
        }
        const next = disabled ? null : moved(latest.current ?? saved, event.key, event.shiftKey);
        if (next === null) return;
        event.preventDefault();
        move(next);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => rest(true), REST_MS);
      },
      onBlur: () => latest.current !== null && rest(true),
      onPointerDown: (event) => {
        if (disabled || event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        dragging.current = true;
        move(placeAt(event.currentTarget.getBoundingClientRect(), event.clientX, event.clientY));
      },
      onPointerMove: (event) => {
        if (dragging.current)
          move(placeAt(event.currentTarget.getBoundingClientRect(), event.clientX, event.clientY));
      },
      onPointerUp: () => {
        if (!dragging.current) return;
        dragging.current = false;
        rest(true);
      },
      onPointerCancel: () => {
        dragging.current = false;
        rest(false);
      },
    },
  };
}
