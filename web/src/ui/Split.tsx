import { type ReactNode, useRef, useState } from "react";
import { Resizer } from "./Resizer";
import { useWidth } from "./useWidth";

interface SplitProps {
  readonly label: string;
  readonly first: ReactNode;
  readonly second: ReactNode;
  /** Share of the first pane at the beginning, in percent. */
  readonly initial?: number;
  readonly min?: number;
  readonly max?: number;
}

/** Below this two panes beside each other show too little of both. */
const STACKED_BELOW_PX = 560;

/** Two panes side by side with a line that can be moved; one above the other where it is narrow. */
export function Split({ label, first, second, initial = 50, min = 20, max = 80 }: SplitProps) {
  const [share, setShare] = useState(initial);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box, 0);
  if (width > 0 && width < STACKED_BELOW_PX) {
    return (
      <div ref={box} className="grid h-full min-h-0 grid-rows-2 divide-y divide-line">
        <div className="min-h-0 min-w-0 overflow-hidden">{first}</div>
        <div className="min-h-0 min-w-0 overflow-hidden">{second}</div>
      </div>
    );
  }
  return (
    <div
      ref={box}
      className="grid h-full min-h-0"
      style={{ gridTemplateColumns: `minmax(0,${share}fr) 1px minmax(0,${100 - share}fr)` }}
    >
      <div className="min-h-0 min-w-0 overflow-hidden">{first}</div>
      <Resizer
        label={label}
        orientation="vertical"
        value={share}
        min={min}
        max={max}
        step={2}
        perPx={width > 0 ? 100 / width : 0.1}
        onChange={setShare}
      />
      <div className="min-h-0 min-w-0 overflow-hidden">{second}</div>
    </div>
  );
}
