import { useMemo } from "react";
import { bucketed, type Lane, LANES, type Mark } from "@/projection/timeline";
import { cx } from "@/ui/cx";
import { FILL_TONE, type Tone } from "@/ui/tone";

const COLUMNS = 200;

const WORDS: Readonly<Record<Lane, readonly [label: string, tone: Tone]>> = {
  decision: ["Decisions", "agent"],
  artifact: ["Artifacts", "artifact"],
  approval: ["Approvals", "warn"],
  steering: ["Notes, steering", "membrane2"],
  failure: ["Failures", "bad"],
};

interface LanesProps {
  readonly marks: readonly Mark[];
  readonly events: number;
  readonly index: number;
  readonly onGo: (position: number) => void;
}

/** What happened where on the line of time, a row for each kind. The buttons and the slider lead there by keyboard. */
export function Lanes({ marks, events, index, onGo }: LanesProps) {
  const buckets = useMemo(() => bucketed(marks, events, COLUMNS), [marks, events]);
  const now = events > 1 ? (100 * index) / (events - 1) : 100;
  return (
    <div className="grid grid-cols-[104px_minmax(0,1fr)] items-center gap-x-2 text-11 text-ink-2">
      {LANES.map((lane) => {
        const [label, tone] = WORDS[lane];
        const mine = buckets.filter((bucket) => bucket.lane === lane);
        const count = marks.filter((mark) => mark.lane === lane).length;
        return (
          <div key={lane} className="contents">
            <span>
              {label} <span className="num text-11 text-ink-3">{count}</span>
            </span>
            {/* As wide as the thumb's way: half a thumb of room on both sides. */}
            <span aria-hidden="true" className="relative mx-1.75 block h-4 border-b border-line">
              {mine.map((bucket) => (
                // The slider below goes to the same places by keyboard.
                // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-static-element-interactions
                <span
                  key={bucket.column}
                  title={`${bucket.count} · ${label}`}
                  onClick={() => onGo(bucket.mark.position)}
                  className={cx(
                    "absolute top-0.5 h-2.75 w-1.5 -translate-x-1/2 cursor-pointer rounded-[2px]",
                    FILL_TONE[tone],
                    bucket.mark.index > index && "opacity-35",
                  )}
                  style={{ left: `${(100 * bucket.mark.index) / Math.max(1, events - 1)}%` }}
                />
              ))}
              <span className="absolute inset-y-0 border-l border-ink" style={{ left: `${now}%` }} />
            </span>
          </div>
        );
      })}
    </div>
  );
}
