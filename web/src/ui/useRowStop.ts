import { type KeyboardEvent, type RefObject, useEffect, useRef, useState } from "react";

interface RowStop {
  /** The row that had the focus last. */
  readonly last: string | undefined;
  readonly keep: (id: string) => void;
  readonly move: (event: KeyboardEvent, from: number, end: number) => void;
}

/** Make one row of a table a stop of Tab; arrows, Home and End move on, also to rows that are not mounted yet. */
export function useRowStop(
  scroller: RefObject<HTMLElement | null>,
  scrollTo: (index: number) => void,
): RowStop {
  const [last, setLast] = useState<string>();
  const wanted = useRef<number | null>(null);
  useEffect(() => {
    if (wanted.current === null) return;
    const row = scroller.current?.querySelector<HTMLElement>(`tr[aria-rowindex="${wanted.current + 2}"]`);
    if (!row) return;
    wanted.current = null;
    row.focus({ preventScroll: true });
  });
  const move = (event: KeyboardEvent, from: number, end: number) => {
    const next = { ArrowDown: from + 1, ArrowUp: from - 1, Home: 0, End: end }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    wanted.current = Math.max(0, Math.min(next, end));
    scrollTo(wanted.current);
    setLast(undefined);
  };
  return { last, keep: setLast, move };
}
