import { useMemo, useSyncExternalStore } from "react";
import { create } from "zustand";
import { browser } from "@/client/browser";
import { isUnread, readStretch } from "@/client/live";
import type { WireEvent } from "@/projection/event";
import { EMPTY_GRAPH, type Graph } from "@/projection/graph";
import { EventLog } from "@/projection/store";
import { type UiState, useUi } from "./ui";

/** The one event log of the page. */
export const eventLog = new EventLog();

interface Past {
  /** The position where this was read; -1 before that. */
  readonly at: number;
  readonly graph: Graph;
}
const UNREAD: Past = { at: -1, graph: EMPTY_GRAPH };

/** The moment of the past that was looked at last, as the server knows it. */
const usePast = create<Past>()(() => UNREAD);
/** One moment is asked for at a time: while somebody drags the slider, the next is where it is by then. */
let isAsking = false;
const RETRY_MS = 1_000;

/** Whether a moment is not now. */
function isPast(travel: number | null): travel is number {
  return travel !== null && travel < eventLog.position;
}

function look(): void {
  const { travel } = useUi.getState();
  if (travel === null && usePast.getState() !== UNREAD) usePast.setState(UNREAD);
  if (isAsking || !isPast(travel) || usePast.getState().at === travel) return;
  isAsking = true;
  const next = () => {
    isAsking = false;
    look();
  };
  browser.snapshot(travel, new AbortController().signal).then(
    ({ graph }) => {
      if (useUi.getState().travel !== null) usePast.setState({ at: travel, graph });
      next();
    },
    () => setTimeout(next, RETRY_MS),
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

/** What every view shows at this instant, for whoever is no component. */
export function shownGraph(): Graph {
  return isPast(useUi.getState().travel) ? usePast.getState().graph : eventLog.graph;
}

const travelOf = (state: UiState) => state.travel;
const liveOf = (state: UiState) => state.live;
const pastOf = (past: Past) => past;

/** The graph that every view shows: of now, or of the past while somebody travels in time. */
export function useGraph(): Graph {
  const now = useSyncExternalStore(eventLog.subscribe, eventLog.snapshot);
  const travel = useUi(travelOf);
  const past = usePast(pastOf);
  return isPast(travel) ? past.graph : now;
}

/** Whether what `useGraph` shows is still on its way, so that nothing may be called missing. */
export function useIsUnread(): boolean {
  const live = useUi(liveOf);
  const travel = useUi(travelOf);
  const past = usePast(pastOf);
  return isUnread(live) || (isPast(travel) && past === UNREAD);
}

/** Whether an address names what is not there, now or at the moment that is shown. */
export function useIsMissing(table: "artifacts" | "runs", id: string | null): boolean {
  const graph = useGraph();
  const isUnknown = useIsUnread();
  return id !== null && !isUnknown && !graph[table].has(id);
}

/** The same for one value of it; pass a function that is declared outside the component. */
export function useProjection<T>(selector: (graph: Graph) => T): T {
  const graph = useGraph();
  return useMemo(() => selector(graph), [graph, selector]);
}

/** The events that views may show: up to the position where one travels. */
export function useEvents(): readonly WireEvent[] {
  const now = useSyncExternalStore(eventLog.subscribe, eventLog.snapshot);
  const travel = useUi(travelOf);
  return useMemo(() => (now.position >= 0 ? eventLog.events(travel) : []), [now, travel]);
}
