import { useId } from "react";
import type { Shape } from "@/client/types";
import { cx } from "@/ui/cx";
import type { Place } from "./place";
import { usePuck } from "./usePuck";

interface PadProps {
  readonly label: string;
  readonly saved: Place;
  readonly axes: Shape<"Axes">;
  readonly disabled: boolean;
  /** While it moves; null when it rests. */
  readonly onMove: (place: Place | null) => void;
  readonly onCommit: (place: Place) => void;
}

const LABEL = "pointer-events-none absolute max-w-[45%] truncate text-11 text-ink-3";

/** Two axes and a puck, for pointer, touch and arrow keys; a ghost stays where the puck was. */
export function Pad({ label, saved, axes, disabled, onMove, onCommit }: PadProps) {
  const id = useId();
  const { place, ghost, handlers } = usePuck({ saved, disabled, onMove, onCommit });
  const [low = "", high = ""] = axes.x;
  const [below = "", above = ""] = axes.y;
  const at = (one: Place) => ({ left: `${one.x * 100}%`, top: `${(1 - one.y) * 100}%` });
  return (
    <div className="flex flex-col gap-1.5">
      <div className="flex justify-between gap-2 text-12 text-ink-2">
        <span id={`${id}-label`}>{label}</span>
        <output id={`${id}-value`} aria-live="polite" className="num text-ink">
          {high} {place.x.toFixed(2)} · {above} {place.y.toFixed(2)}
        </output>
      </div>
      <div
        role="application"
        aria-label={label}
        aria-roledescription="pad of two axes"
        aria-describedby={`${id}-hint ${id}-value`}
        aria-disabled={disabled || undefined}
        tabIndex={0}
        {...handlers}
        className={cx(
          "relative h-43 touch-none overflow-hidden rounded-card border border-edge bg-paper select-none",
          disabled ? "opacity-70" : "cursor-crosshair",
        )}
      >
        <span aria-hidden="true" className="pointer-events-none absolute inset-y-0 left-1/2 w-px bg-line" />
        <span aria-hidden="true" className="pointer-events-none absolute inset-x-0 top-1/2 h-px bg-line" />
        <span className={cx(LABEL, "top-1/2 left-2 -translate-y-[120%]")}>{low}</span>
        <span className={cx(LABEL, "top-1/2 right-2 -translate-y-[120%]")}>{high}</span>
        <span className={cx(LABEL, "top-1.5 left-1/2 translate-x-2")}>{above}</span>
        <span className={cx(LABEL, "bottom-1.5 left-1/2 translate-x-2")}>{below}</span>
        {ghost !== null && (
          <span
            data-ghost
            aria-hidden="true"
            style={at(ghost)}
            className="pointer-events-none absolute size-2.5 -translate-1/2 rounded-full border border-dashed border-ink-3"
          />
        )}
        <span
          data-puck
          aria-hidden="true"
          style={at(place)}
          className="pointer-events-none absolute size-4.5 -translate-1/2 rounded-full border-3 border-panel bg-accent outline-1 outline-accent"
        />
      </div>
      <p id={`${id}-hint`} className="sr-only">
        Arrow keys move it by 0.05, with Shift by 0.25; Escape puts it back. It is saved when it rests.
      </p>
    </div>
  );
}
