import type { Shape } from "@/client/types";
import { plus } from "@/projection/graph";
import { missionOf, shortName } from "@/projection/event";
import { type Graph, NOTHING_SPENT, type Run, type Spend } from "@/projection/graph";

export type Spent = Shape<"Spent">;

/** A line of a table of costs. */
export interface CostRow {
  readonly id: string;
  readonly label: string;
  readonly microusd: number;
  readonly calls: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export const DAY_US = 86_400_000_000;
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

export function dayLabel(dayUs: number): string {
  return DAY.format(dayUs / 1000);
}

export function tokens(row: CostRow): number {
  return row.inputTokens + row.outputTokens;
}

function added(rows: Map<string, CostRow>, id: string, label: string, one: Spent): void {
  const before = rows.get(id);
  rows.set(id, {
    id,
    label,
    microusd: (before?.microusd ?? 0) + one.cost_microusd,
    calls: (before?.calls ?? 0) + one.calls,
    inputTokens: (before?.inputTokens ?? 0) + one.input_tokens,
    outputTokens: (before?.outputTokens ?? 0) + one.output_tokens,
  });
}

function dearestFirst(rows: Iterable<CostRow>): readonly CostRow[] {
  return [...rows].sort(
    (a, b) => b.microusd - a.microusd || tokens(b) - tokens(a) || a.label.localeCompare(b.label),
  );
}

/** What people call it first: the end of a long id is what tells agents apart. */
export function agentLabel(agent: string): string {
  const mission = missionOf(agent);
  if (agent === "") return "runs of no agent";
  return mission === "" ? agent : `${shortName(agent)} · ${mission}`;
}

export function byAgent(items: readonly Spent[]): readonly CostRow[] {
  const rows = new Map<string, CostRow>();
  for (const one of items) added(rows, one.agent, agentLabel(one.agent), one);
  return dearestFirst(rows.values());
}

export function byModel(items: readonly Spent[]): readonly CostRow[] {
  const rows = new Map<string, CostRow>();
  for (const one of items) added(rows, one.model, one.model || "tools", one);
  return dearestFirst(rows.values());
}

/** Every day of the time that was asked for, the oldest first; a day without costs is a zero. */
export function byDay(items: readonly Spent[], sinceUs: number, nowUs: number): readonly CostRow[] {
  const rows = new Map<string, CostRow>();
  for (let day = sinceUs; day <= nowUs; day += DAY_US) {
    const nothing = { microusd: 0, calls: 0, inputTokens: 0, outputTokens: 0 };
    rows.set(String(day), { id: String(day), label: dayLabel(day), ...nothing });
  }
  for (const one of items) added(rows, String(one.day_us), dayLabel(one.day_us), one);
  return [...rows.values()].sort((a, b) => Number(a.id) - Number(b.id));
}

const DEPTH_MAX = 64;

function rootOf(graph: Graph, run: Run): string {
  let top = run;
  for (let depth = 0; depth < DEPTH_MAX && top.parent !== ""; depth += 1) {
    const parent = graph.runs.get(top.parent);
    if (parent === undefined) break;
    top = parent;
  }
  return top.id;
}

function goalRow(id: string, label: string, spend: Spend): CostRow {
  const { microusd, calls, inputTokens, outputTokens } = spend;
  return { id, label, microusd, calls, inputTokens, outputTokens };
}

/** What each goal has cost since it was given, with all its tasks; the rest in one line. */
export function byGoal(graph: Graph): readonly CostRow[] {
  const sums = new Map<string, Spend>();
  for (const run of graph.runs.values()) {
    const root = rootOf(graph, run);
    const goal = graph.missions.has(root) ? root : "";
    sums.set(goal, plus(sums.get(goal) ?? NOTHING_SPENT, run.spend));
  }
  const rows = [...sums].map(([id, spend]) =>
    goalRow(id, id === "" ? "outside any goal" : graph.runs.get(id)?.goal || id, spend),
  );
  return dearestFirst(rows.filter((row) => row.calls > 0 || row.microusd > 0));
}
