import { type KeyboardEvent, type PointerEvent, useRef } from "react";
import { cx } from "./cx";

interface ResizerProps {
  readonly label: string;
  /** `vertical`: a line that stands, between left and right. */
  readonly orientation: "vertical" | "horizontal";
  readonly value: number;
  readonly min: number;
  readonly max: number;
  /** How many units a pixel of movement is; negative where the pane lies after the line. */
  readonly perPx?: number;
  readonly step?: number;
  readonly onChange: (value: number) => void;
  readonly className?: string;
}

/** The line between two panes: dragged, or moved by arrows, Home and End. */
export function Resizer({
  label,
  orientation,
  value,
  min,
  max,
  perPx = 1,
  step = 24,
  onChange,
  className,
}: ResizerProps) {
  const start = useRef<{ readonly at: number; readonly value: number } | null>(null);
  const along = (event: PointerEvent) => (orientation === "vertical" ? event.clientX : event.clientY);
  const set = (next: number) => onChange(Math.min(max, Math.max(min, next)));

  const onKeyDown = (event: KeyboardEvent) => {
    const sign = Math.sign(perPx) || 1;
    const moves: Record<string, number> =
      orientation === "vertical"
        ? { ArrowLeft: value - sign * step, ArrowRight: value + sign * step }
        : { ArrowUp: value - sign * step, ArrowDown: value + sign * step };
    const next = { ...moves, Home: min, End: max }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    set(next);
  };

  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- a separator with a value is a control
    <div
      role="separator"
      tabIndex={0}
      aria-label={label}
      aria-orientation={orientation}
      aria-valuenow={Math.round(value)}
      aria-valuemin={Math.round(min)}
      aria-valuemax={Math.round(max)}
      onKeyDown={onKeyDown}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        start.current = { at: along(event), value };
      }}
      onPointerMove={(event) => {
        if (start.current !== null) set(start.current.value + (along(event) - start.current.at) * perPx);
      }}
      onPointerUp={() => (start.current = null)}
      onPointerCancel={() => (start.current = null)}
      className={cx(
        "z-10 touch-none bg-line hover:bg-accent focus-visible:bg-accent",
        orientation === "vertical" ? "w-px cursor-col-resize" : "h-px cursor-row-resize",
        // The line is thin, what can be grabbed is not.
        "relative before:absolute before:content-['']",
        orientation === "vertical"
          ? "before:inset-y-0 before:-inset-x-1"
          : "before:inset-x-0 before:-inset-y-1",
        className,
      )}
    />
  );
}
