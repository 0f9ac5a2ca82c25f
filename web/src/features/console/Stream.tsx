import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import type { ConsoleRow } from "@/projection/rows";
import { Button } from "@/ui/Button";
import { setConsole, useConsole } from "./consoleStore";
import { StreamRow } from "./StreamRow";

/** The list is as high as whole rows (`round` below), so that none is cut at its head. */
const ROW_PX = 24;
/** Within this distance of its end the list goes along with what comes. */
const NEAR_PX = ROW_PX * 2;

interface StreamProps {
  readonly rows: readonly ConsoleRow[];
  readonly isFollowing: boolean;
}

/** The list of events. Only those in sight are mounted; arrows, Home and End choose one. */
export function Stream({ rows, isFollowing }: StreamProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [isAtEnd, setAtEnd] = useState(true);
  /** The same for the effect below: only what comes moves the list, never that somebody scrolled near its end. */
  const atEnd = useRef(true);
  const looked = useConsole((state) => state.looked);
  const id = useId();
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 10,
    initialRect: { width: 600, height: 480 },
  });
  const last = rows.length - 1;

  useEffect(() => {
    if (isFollowing && atEnd.current && last >= 0) virtual.scrollToIndex(last, { align: "end" });
  }, [virtual, isFollowing, last]);

  const chosen = looked === null ? -1 : rows.findIndex((row) => row.position === looked.position);
  const choose = (index: number) => {
    const row = rows[index];
    if (row === undefined) return;
    setConsole({ looked: { runId: row.runId, step: row.step, position: row.position } });
    virtual.scrollToIndex(index);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const from = chosen < 0 ? last + 1 : chosen;
    const next = {
      ArrowUp: from - 1,
      ArrowDown: from + 1,
      PageUp: Math.max(0, from - 10),
      PageDown: Math.min(last, from + 10),
      Home: 0,
      End: last,
    }[event.key];
    if (event.key === "Escape" && looked !== null) setConsole({ looked: null });
    if (next === undefined) return;
    event.preventDefault();
    choose(next);
  };

  return (
    <div className="relative min-h-0 flex-1">
      <div
        ref={scroller}
        role="listbox"
        aria-label="Events"
        tabIndex={0}
        aria-activedescendant={chosen < 0 ? undefined : `${id}-${chosen}`}
        onKeyDown={onKeyDown}
        onScroll={(event) => {
          const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
          atEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_PX;
          setAtEnd(atEnd.current);
        }}
        className="h-[round(down,100%,24px)] overflow-auto -outline-offset-2 scroll-thin"
      >
        <div role="presentation" className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            return row === undefined ? null : (
              <StreamRow
                key={row.position}
                id={`${id}-${item.index}`}
                row={row}
                index={item.index}
                count={rows.length}
                top={item.start}
                isSelected={item.index === chosen}
                onSelect={() => choose(item.index)}
              />
            );
          })}
        </div>
      </div>
      {!isAtEnd && (
        <Button
          size="small"
          className="absolute right-4 bottom-2"
          onClick={() => virtual.scrollToIndex(last, { align: "end" })}
        >
          Newest
        </Button>
      )}
    </div>
  );
}
