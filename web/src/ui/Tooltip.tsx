import { type FocusEvent, type PointerEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { createPortal } from "react-dom";
import { Kbd } from "./Kbd";

export type TooltipSide = "right" | "bottom" | "top";

interface TooltipProps {
  /** Without any, nothing is shown. */
  readonly text: string;
  readonly shortcut?: string | undefined;
  readonly side?: TooltipSide;
  readonly children: ReactNode;
}

interface Place {
  readonly left: number;
  readonly top: number;
}

function placeBeside(box: DOMRect, side: TooltipSide): Place {
  if (side === "right") return { left: box.right + 8, top: box.top + box.height / 2 };
  if (side === "top") return { left: box.left + box.width / 2, top: box.top - 8 };
  return { left: box.left + box.width / 2, top: box.bottom + 8 };
}

const SHIFT = {
  right: "-translate-y-1/2",
  bottom: "-translate-x-1/2",
  top: "-translate-x-1/2 -translate-y-full",
} as const;

/** A hint for eyes: what it says is the name of the control anyway. Escape hides it (WCAG 1.4.13). */
export function Tooltip({ text, shortcut, side = "bottom", children }: TooltipProps) {
  const [place, setPlace] = useState<Place | null>(null);
  const anchor = useRef<HTMLSpanElement>(null);

  const show = (event: FocusEvent | PointerEvent) => {
    const target = anchor.current?.firstElementChild;
    const byKeyboard =
      event.type === "focus" && event.target instanceof Element && event.target.matches(":focus-visible");
    if (target && (event.type !== "focus" || byKeyboard))
      setPlace(placeBeside(target.getBoundingClientRect(), side));
  };
  const hide = () => setPlace(null);

  useEffect(() => {
    if (place === null) return;
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape") setPlace(null);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [place]);

  return (
    <span
      ref={anchor}
      className="contents"
      onPointerEnter={show}
      onPointerLeave={hide}
      onPointerDown={hide}
      onFocus={show}
      onBlur={hide}
    >
      {children}
      {place &&
        text !== "" &&
        createPortal(
          <div
            aria-hidden="true"
            className={`pointer-events-none fixed z-60 flex max-w-70 items-center gap-2 rounded-control border border-line bg-panel-2 px-2 py-1 text-12 text-ink ${SHIFT[side]}`}
            style={{ left: place.left, top: place.top }}
          >
            {text}
            {shortcut !== undefined && <Kbd keys={shortcut} />}
          </div>,
          document.body,
        )}
    </span>
  );
}
