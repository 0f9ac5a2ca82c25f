import { create } from "zustand";
import type { RowFilter } from "@/projection/rows";
import { eventLog } from "@/state/log";

/** A step that somebody looks at, and the event by which they came to it. */
export interface Looked {
  readonly runId: string;
  readonly step: string;
  readonly position: number;
}

export interface ConsoleState {
  readonly filter: RowFilter;
  /** The stream stands still at this position; null: it follows. */
  readonly pausedAt: number | null;
  /** null: the newest prompt. */
  readonly looked: Looked | null;
  /** The run that "Fork from here" means; "" is the one that acted last. */
  readonly forkOf: string;
}

export const INITIAL_CONSOLE: ConsoleState = {
  filter: { group: "main", agent: "", text: "" },
  pausedAt: null,
  looked: null,
  forkOf: "",
};

export const useConsole = create<ConsoleState>()(() => INITIAL_CONSOLE);
export const setConsole = useConsole.setState;

// Another tenant begins: its positions are others.
eventLog.subscribe(() => {
  if (eventLog.position === 0) setConsole(INITIAL_CONSOLE);
});

export function setFilter(fields: Partial<RowFilter>): void {
  setConsole((state) => ({ filter: { ...state.filter, ...fields } }));
}
