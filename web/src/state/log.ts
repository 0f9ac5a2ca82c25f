import { useMemo, useSyncExternalStore } from "react";
import type { WireEvent } from "@/projection/event";
import type { Graph } from "@/projection/graph";
import { EventLog } from "@/projection/store";
import { useUi } from "./ui";

/** The one event log of the page. */
export const eventLog = new EventLog();

/** The graph that every view shows: of now, or of the past while somebody travels in time. */
export function useGraph(): Graph {
  const now = useSyncExternalStore(eventLog.subscribe, eventLog.snapshot);
  const travel = useUi((state) => state.travel);
  return useMemo(() => (travel === null ? now : eventLog.foldTo(travel)), [now, travel]);
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
