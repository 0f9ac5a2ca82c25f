import { useMemo, useSyncExternalStore } from "react";
import { create } from "zustand";
import { browser } from "@/client/browser";
import { readStretch } from "@/client/live";
import type { WireEvent } from "@/projection/event";
import { EMPTY_GRAPH, type Graph } from "@/projection/graph";
import { EventLog } from "@/projection/store";
import { useUi } from "./ui";

/** The one event log of the page. */
export const eventLog = new EventLog();

/** A moment before all events that are here, as the server has folded it. */
const usePast = create<{ readonly at: number; readonly graph: Graph }>()(() => ({
  at: -1,
  graph: EMPTY_GRAPH,
}));

/** Whether a moment is before the events of this page, so that only the server knows it. */
function isEarlier(travel: number | null): travel is number {
  return travel !== null && travel < eventLog.earliest;
}

function look(): void {
  const { travel } = useUi.getState();
  if (!isEarlier(travel) || usePast.getState().at === travel) return;
  usePast.setState({ at: travel, graph: { ...EMPTY_GRAPH, position: travel } });
  browser.snapshot(travel, new AbortController().signal).then(
    ({ graph }) => {
      if (usePast.getState().at === travel) usePast.setState({ graph });
    },
    () => usePast.setState({ at: -1 }), // the next look tries again
  );
}
useUi.subscribe(look);
eventLog.subscribe(look);

/** Events that are read at once when somebody goes further back. */
const STRETCH = 5_000;

/** Adds a stretch of events from before those that are here. */
export async function readEarlier(): Promise<void> {
  const { earliest, origin } = eventLog;
  const wanted = { from: Math.max(0, earliest - STRETCH), upTo: earliest };
  const stretch = await readStretch(browser, wanted, new AbortController().signal);
  if (eventLog.origin === origin) eventLog.prepend(stretch);
}

/** The graph that every view shows: of now, or of the past while somebody travels in time. */
export function useGraph(): Graph {
  const now = useSyncExternalStore(eventLog.subscribe, eventLog.snapshot);
  const travel = useUi((state) => state.travel);
  const past = usePast((state) => state.graph);
  return useMemo(() => {
    if (travel === null) return now;
    return isEarlier(travel) ? past : eventLog.foldTo(travel);
  }, [now, travel, past]);
}

/** The same for one value of it; pass a function that is declared outside the component. */
export function useProjection<T>(selector: (graph: Graph) => T): T {
  const graph = useGraph();
  return useMemo(() => selector(graph), [graph, selector]);
}

/** The events that views may show: up to the position where one travels. */
export function useEvents(): readonly WireEvent[] {
  const now = useSyncExternalStore(eventLog.subscribe, eventLog.snapshot);
  const travel = useUi((state) => state.travel);
  return useMemo(() => (now.position >= 0 ? eventLog.events(travel) : []), [now, travel]);
}
