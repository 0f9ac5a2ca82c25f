import { type ReactNode, useRef, useState } from "react";
import { Resizer } from "./Resizer";

interface SplitProps {
  readonly label: string;
  readonly first: ReactNode;
  readonly second: ReactNode;
  /** Share of the first pane at the beginning, in percent. */
  readonly initial?: number;
  readonly min?: number;
  readonly max?: number;
}

/** Two panes side by side with a line that can be moved. */
export function Split({ label, first, second, initial = 50, min = 20, max = 80 }: SplitProps) {
  const [share, setShare] = useState(initial);
  const box = useRef<HTMLDivElement>(null);
  const width = box.current?.clientWidth ?? 0;
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
