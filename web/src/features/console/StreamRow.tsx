import type { ConsoleRow } from "@/projection/rows";
import { called } from "@/state/called";
import { rowTone, timeOf } from "@/shell/eventRow";
import { Pill } from "@/ui/Badge";
import { cx } from "@/ui/cx";

interface StreamRowProps {
  readonly id: string;
  readonly row: ConsoleRow;
  readonly index: number;
  readonly count: number;
  readonly top: number;
  readonly isSelected: boolean;
  readonly onSelect: () => void;
}

/** One event: when, who, what, and the thing itself. */
export function StreamRow({ id, row, index, count, top, isSelected, onSelect }: StreamRowProps) {
  return (
    // The list has the focus and hears the keys; it names the row that is meant.
    // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus
    <div
      id={id}
      role="option"
      aria-selected={isSelected}
      aria-posinset={index + 1}
      aria-setsize={count}
      onClick={onSelect}
      className={cx(
        "absolute inset-x-0 flex h-6 cursor-pointer items-center gap-2.5 px-4 text-12 hover:bg-panel-2",
        isSelected && "bg-panel-2 shadow-[inset_2px_0_0_var(--accent)]",
      )}
      style={{ transform: `translateY(${top}px)` }}
    >
      <span className="num w-15 shrink-0 text-ink-3">{timeOf(row)}</span>
      <span className="w-20 shrink-0 truncate max-desktop:w-14 text-agent" title={row.agent}>
        {called(row.agent)}
      </span>
      <span className="w-28 shrink-0">
        <Pill tone={rowTone(row)}>{row.word}</Pill>
      </span>
      <span className="sr-only">{row.kind}</span>
      <span className="num min-w-0 flex-1 truncate text-ink-2">{row.text}</span>
    </div>
  );
}
