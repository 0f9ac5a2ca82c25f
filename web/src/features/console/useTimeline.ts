import { useMemo, useSyncExternalStore } from "react";
import type { WireEvent } from "@/projection/event";
import { indexAt, type Mark, marksOf, nextMark } from "@/projection/timeline";
import { eventLog } from "@/state/log";
import { setUi, useUi } from "@/state/ui";

export interface Timeline {
  /** All events, also those after the moment that is shown. */
  readonly events: readonly WireEvent[];
  readonly marks: readonly Mark[];
  /** Place of the newest event that is shown. */
  readonly index: number;
  /** What came before the first is folded away, so that one cannot go there. */
  readonly isCut: boolean;
  /** Shows the moment right after an event; that of the newest is now. */
  readonly goTo: (index: number) => void;
  readonly before: Mark | undefined;
  readonly after: Mark | undefined;
}

/** The whole line of time, and where one stands on it. */
export function useTimeline(): Timeline {
  const graph = useSyncExternalStore(eventLog.subscribe, eventLog.snapshot);
  const travel = useUi((state) => state.travel);
  const events = useMemo(() => (graph.events >= 0 ? eventLog.events() : []), [graph]);
  const marks = useMemo(() => marksOf(events), [events]);
  const index = travel === null ? events.length - 1 : Math.max(0, indexAt(events, travel));
  return {
    events,
    marks,
    index,
    isCut: eventLog.earliest > 0,
    goTo: (to) => {
      const event = events[to];
      if (event !== undefined) setUi({ travel: to >= events.length - 1 ? null : event.position });
    },
    before: nextMark(marks, index, false),
    after: nextMark(marks, index, true),
  };
}
