import { splitStream, type WireEvent } from "./event";
import type { Graph, Run } from "./graph";

export interface RunLine {
  readonly run: Run;
  readonly depth: number;
  /** With all that it started. */
  readonly microusd: number;
}

/** Runs as a tree written from top to bottom: the newest root first, children in the order of their start. */
export function runTree(graph: Graph): readonly RunLine[] {
  const children = new Map<string, Run[]>();
  const roots: Run[] = [];
  for (const run of graph.runs.values()) {
    const above = run.parent !== "" && graph.runs.has(run.parent) ? run.parent : "";
    if (above === "") roots.push(run);
    else children.set(above, [...(children.get(above) ?? []), run]);
  }
  const lines: RunLine[] = [];
  const add = (run: Run, depth: number): number => {
    const place = lines.length;
    lines.push({ run, depth, microusd: 0 });
    let sum = run.spend.microusd;
    for (const child of children.get(run.id) ?? []) sum += add(child, depth + 1);
    lines[place] = { run, depth, microusd: sum };
    return sum;
  };
  for (const root of roots.sort((a, b) => b.startedUs - a.startedUs)) add(root, 0);
  return lines;
}

/** One event of a run's history; that of a fork begins with its origin's. */
export interface HistoryEvent {
  readonly event: WireEvent;
  readonly runId: string;
}

export function historyOf(events: readonly WireEvent[], runId: string): readonly HistoryEvent[] {
  const own = events
    .filter((event) => event.stream === `run:${runId}`)
    .map((event) => ({ event, runId: splitStream(event.stream)[1] }));
  const forked = own[0]?.event;
  if (forked?.kind !== "run.forked") return own;
  const origin = String(forked.data["origin"] ?? "");
  const at = Number(forked.data["at"]);
  // A fork of itself cannot be, but what comes over the wire must not hang the page.
  if (origin === runId || origin === "") return own;
  const before = events.filter((event) => event.position < forked.position);
  const shared = historyOf(before, origin).filter((one) => one.runId !== origin || one.event.seq <= at);
  return [...shared, ...own];
}

export interface DiffLine {
  readonly place: number;
  readonly a: HistoryEvent | null;
  readonly b: HistoryEvent | null;
  /** `shared`: the very same event. `equal`: another event that says the same. */
  readonly how: "shared" | "equal" | "different";
}

/** Fields that differ from run to run without meaning anything: hashes under a run's own key, times. */
const INCIDENTAL: ReadonlySet<string> = new Set(["ms", "request", "took", "command"]);

function saying(event: WireEvent): string {
  const fields = Object.entries(event.data)
    .filter(([name]) => !INCIDENTAL.has(name))
    .sort(([a], [b]) => a.localeCompare(b));
  return JSON.stringify([event.kind, fields]);
}

/** Two histories side by side, and where they part: the first place from which on they differ. */
export function compareRuns(
  a: readonly HistoryEvent[],
  b: readonly HistoryEvent[],
): { readonly lines: readonly DiffLine[]; readonly partAt: number | null } {
  const lines: DiffLine[] = [];
  let partAt: number | null = null;
  for (let place = 0; place < Math.max(a.length, b.length); place += 1) {
    const [one, two] = [a[place] ?? null, b[place] ?? null];
    const how = compared(one, two);
    if (how === "different" && partAt === null) partAt = place;
    lines.push({ place, a: one, b: two, how });
  }
  return { lines, partAt };
}

function compared(one: HistoryEvent | null, two: HistoryEvent | null): DiffLine["how"] {
  if (one === null || two === null) return "different";
  if (one.event === two.event) return "shared";
  return saying(one.event) === saying(two.event) ? "equal" : "different";
}
