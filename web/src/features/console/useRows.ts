import { useDeferredValue, useMemo } from "react";
import type { WireEvent } from "@/projection/event";
import { agentsOf, type ConsoleRow, filterRows } from "@/projection/rows";
import { indexAt } from "@/projection/timeline";
import { rowFor } from "@/shell/eventRow";
import { useEvents } from "@/state/log";
import { useConsole } from "./consoleStore";

export interface Rows {
  /** Those that pass the filter. */
  readonly shown: readonly ConsoleRow[];
  readonly agents: readonly string[];
  /** Events there are up to where one looks. */
  readonly events: number;
  /** Events that came since the stream was paused. */
  readonly waiting: number;
}

/** The rows of the stream: of all events up to where one travels, or where one paused it. */
export function useRows(): Rows {
  const events = useEvents();
  const filter = useConsole((state) => state.filter);
  const pausedAt = useConsole((state) => state.pausedAt);
  const text = useDeferredValue(filter.text);
  const seen = useMemo(() => upTo(events, pausedAt), [events, pausedAt]);
  const rows = useMemo(() => seen.map(rowFor), [seen]);
  const agents = useMemo(() => agentsOf(rows), [rows]);
  const { group, agent } = filter;
  const shown = useMemo(() => filterRows(rows, { group, agent, text }), [rows, group, agent, text]);
  return { shown, agents, events: seen.length, waiting: events.length - seen.length };
}

function upTo(events: readonly WireEvent[], position: number | null): readonly WireEvent[] {
  return position === null ? events : events.slice(0, indexAt(events, position) + 1);
}
