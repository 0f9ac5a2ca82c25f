import { shortName, splitStream, text, type WireEvent } from "./event";
import { told } from "./rowsTold";

/** What a row of the console is about: its filter, and on the screen its colour. */
export type RowGroup =
  "decision" | "action" | "artifact" | "money" | "approval" | "verdict" | "note" | "run" | "bookkeeping";

export interface ConsoleRow {
  readonly position: number;
  /** In a world the number of its tick: time there is counted in ticks. */
  readonly atUs: number;
  readonly space: string;
  /** Id of the agent, or who else did it (`operator`, `user:ada`). */
  readonly agent: string;
  /** "" if it is no event of a run. */
  readonly runId: string;
  readonly seq: number;
  /** Key of its step; "" if it has none. */
  readonly step: string;
  readonly group: RowGroup;
  /** The word of the pill. */
  readonly word: string;
  readonly kind: string;
  readonly text: string;
  readonly isFailure: boolean;
}

/** What a row needs beside its event. */
export interface RowWorld {
  /** The agent of a run; "" if it has none. */
  readonly agentOf: (runId: string) => string;
  /** Micro-dollars in words. */
  readonly money: (microusd: number) => string;
}

const TEXT_MAX = 400;
const known = new WeakMap<WireEvent, ConsoleRow>();

/** One row per event. Kept with the event, so that a long log costs only what is new. */
export function rowOf(event: WireEvent, world: RowWorld): ConsoleRow {
  const before = known.get(event);
  if (before !== undefined) return before;
  const [type, id] = splitStream(event.stream);
  const [group, word, whole, isFailure = false] = told(event, world);
  const runId = type === "run" ? id : text(event, "run_id");
  const row: ConsoleRow = {
    position: event.position,
    atUs: event.at_us,
    space: event.space,
    agent: (type === "run" && world.agentOf(id)) || event.actor,
    runId,
    seq: event.seq,
    step: type === "run" ? text(event, "key") : text(event, "step"),
    group,
    word,
    kind: event.kind,
    text: whole.length > TEXT_MAX ? `${whole.slice(0, TEXT_MAX)}…` : whole,
    isFailure,
  };
  known.set(event, row);
  return row;
}

/** `all`: every event. `main`: without bookkeeping. Else one group, or what failed. */
export type RowFilterGroup = "all" | "main" | "failure" | RowGroup;

export interface RowFilter {
  readonly group: RowFilterGroup;
  readonly agent: string;
  readonly text: string;
}

export function filterRows(rows: readonly ConsoleRow[], filter: RowFilter): readonly ConsoleRow[] {
  const wanted = filter.text.trim().toLowerCase();
  return rows.filter((row) => {
    if (filter.agent !== "" && row.agent !== filter.agent) return false;
    if (filter.group === "main" ? row.group === "bookkeeping" : !isOfGroup(row, filter.group)) return false;
    return wanted === "" || `${row.agent} ${row.word} ${row.kind} ${row.text}`.toLowerCase().includes(wanted);
  });
}

function isOfGroup(row: ConsoleRow, group: RowFilterGroup): boolean {
  if (group === "all" || group === "main") return true;
  return group === "failure" ? row.isFailure : row.group === group;
}

/** Everybody who stands in the rows, by name. */
export function agentsOf(rows: readonly ConsoleRow[]): readonly string[] {
  return [...new Set(rows.map((row) => row.agent))].sort((a, b) => a.localeCompare(b));
}

/** What a person calls whoever did it: `analyst`, `ada`, `mission`. */
export function actorName(actor: string): string {
  const [type, rest] = splitStream(actor);
  if (rest === "") return shortName(actor);
  return type === "user" ? rest : type;
}

/** The same, but agents as the plan calls them, so that they are found on the canvas again. */
export function calledIn(agents: ReadonlyMap<string, { readonly name: string }>, actor: string): string {
  return agents.get(actor)?.name || actorName(actor);
}
