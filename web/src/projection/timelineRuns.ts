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

/** What belongs to driving a run, and not to what it does. */
const DRIVING: ReadonlySet<string> = new Set([
  "run.forked",
  "run.resumed",
  "run.reopened",
  "run.suspended",
  "limit.set",
  // Told anew by whoever goes on with a run.
  "tools.changed",
]);

/** Two histories side by side, matched by what they are about, and the first place where they differ. */
export function compareRuns(
  a: readonly HistoryEvent[],
  b: readonly HistoryEvent[],
): { readonly lines: readonly DiffLine[]; readonly partAt: number | null } {
  const done = (history: readonly HistoryEvent[]) => history.filter((one) => !DRIVING.has(one.event.kind));
  const pairs = aligned(done(a), done(b));
  const lines = pairs.map(([one, two], place) => ({ place, a: one, b: two, how: compared(one, two) }));
  const partAt = lines.findIndex((line) => line.how === "different");
  return { lines, partAt: partAt < 0 ? null : partAt };
}

type Pair = readonly [HistoryEvent | null, HistoryEvent | null];

/** What an event is about, whatever it says. */
function subject({ event }: HistoryEvent): string {
  return `${event.kind} ${String(event.data["key"] ?? "")}`;
}

/** Events about the same stand beside each other; what only one side has stands alone. */
function aligned(a: readonly HistoryEvent[], b: readonly HistoryEvent[]): readonly Pair[] {
  const pairs: Pair[] = [];
  const left = counts(a);
  const right = counts(b);
  let j = 0;
  for (const one of a) {
    const wanted = subject(one);
    take(left, wanted);
    // Whatever the other side has before its next event about this, and this side has nowhere later.
    while (j < b.length && (right.get(wanted) ?? 0) > 0) {
      const two = b[j];
      if (two === undefined || subject(two) === wanted || (left.get(subject(two)) ?? 0) > 0) break;
      take(right, subject(two));
      pairs.push([null, two]);
      j += 1;
    }
    const two = b[j];
    if (two !== undefined && subject(two) === wanted) {
      take(right, wanted);
      pairs.push([one, two]);
      j += 1;
    } else pairs.push([one, null]);
  }
  for (const two of b.slice(j)) pairs.push([null, two]);
  return pairs;
}

function counts(events: readonly HistoryEvent[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const one of events) found.set(subject(one), (found.get(subject(one)) ?? 0) + 1);
  return found;
}

function take(from: Map<string, number>, what: string): void {
  from.set(what, (from.get(what) ?? 0) - 1);
}

function compared(one: HistoryEvent | null, two: HistoryEvent | null): DiffLine["how"] {
  if (one === null || two === null) return "different";
  if (one.event === two.event) return "shared";
  return saying(one.event) === saying(two.event) ? "equal" : "different";
}
