import { type FocusEvent, type KeyboardEvent, type RefObject, useLayoutEffect, useRef } from "react";

const ITEM = "a[href], button";

interface OneStop<E extends HTMLElement> {
  readonly ref: RefObject<E | null>;
  readonly onKeyDown: (event: KeyboardEvent) => void;
  readonly onFocus: (event: FocusEvent) => void;
}

/** Make a list of links or buttons one stop of Tab: the arrows, Home and End move within it.
 *  Spread what it returns over the list. The stop is what had the focus last, else what is current, else the first. */
export function useOneStop<E extends HTMLElement>(): OneStop<E> {
  const ref = useRef<E>(null);
  const last = useRef<HTMLElement | null>(null);
  // After every render, since lines come and go.
  useLayoutEffect(() => {
    const items = itemsOf(ref.current);
    const stop =
      items.find((one) => one === last.current) ??
      items.find((one) => one.getAttribute("aria-current") !== null) ??
      items[0];
    setStop(items, stop);
  });
  return {
    ref,
    onKeyDown: (event) => {
      const items = itemsOf(ref.current);
      const at = items.findIndex((one) => one === event.target);
      if (at < 0) return;
      const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      items[Math.max(0, Math.min(next, items.length - 1))]?.focus();
    },
    onFocus: (event) => {
      const items = itemsOf(ref.current);
      const stop = items.find((one) => one === event.target);
      if (stop === undefined) return;
      last.current = stop;
      setStop(items, stop);
    },
  };
}

function itemsOf(list: HTMLElement | null): readonly HTMLElement[] {
  return list === null ? [] : [...list.querySelectorAll<HTMLElement>(ITEM)];
}

function setStop(items: readonly HTMLElement[], stop: HTMLElement | undefined): void {
  for (const one of items) one.tabIndex = one === stop ? 0 : -1;
}
