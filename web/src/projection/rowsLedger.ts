import { flag, integer, splitStream, text, type WireEvent } from "./event";
import { countsOf } from "./rowsTold";

/** `posting`: money moved between two accounts. The others are counters of a scope with a limit. */
export type LedgerSort = "posting" | "hold" | "settle" | "release";

export interface LedgerLine {
  readonly id: string;
  readonly position: number;
  readonly atUs: number;
  readonly space: string;
  readonly kind: string;
  readonly runId: string;
  readonly step: string;
  readonly sort: LedgerSort;
  /** Account it came from, or the scope of a counter. */
  readonly source: string;
  /** Account it went to; "" for counters. */
  readonly target: string;
  /** `usd` (in micro-dollars), `scrip`, `tokens`, `steps`, `ms`. */
  readonly unit: string;
  readonly amount: number;
  /** Of a settled hold: what was held before. */
  readonly held: number;
}

/** Each movement of money and of counters, in the order of the log. */
export function ledgerLines(events: Iterable<WireEvent>): readonly LedgerLine[] {
  const lines: LedgerLine[] = [];
  for (const event of events) {
    if (event.data["postings"] === undefined && event.data["counts"] === undefined) continue;
    const [type, id] = splitStream(event.stream);
    const common = {
      position: event.position,
      atUs: event.at_us,
      space: event.space,
      kind: event.kind,
      runId: type === "run" ? id : "",
      step: text(event, "key"),
    };
    for (const [source, target, unit, amount] of postingsOf(event)) {
      const rest = { sort: "posting" as const, source, target, unit, amount, held: 0 };
      lines.push({ ...common, id: `${event.position}.${lines.length}`, ...rest });
    }
    for (const [scope, unit, reserve, use] of countsOf(event)) {
      const sort = reserve > 0 ? "hold" : use > 0 ? "settle" : "release";
      const amount = reserve > 0 ? reserve : use > 0 ? use : -reserve;
      const rest = {
        sort,
        source: scope,
        target: "",
        unit,
        amount,
        held: reserve < 0 ? -reserve : 0,
      } as const;
      lines.push({ ...common, id: `${event.position}.${lines.length}`, ...rest });
    }
  }
  return lines;
}

/** `[source, target, asset, amount]` of an event, as far as they are well-formed. */
function postingsOf(event: WireEvent): readonly (readonly [string, string, string, number])[] {
  const postings = event.data["postings"];
  if (!Array.isArray(postings)) return [];
  return (postings as unknown[]).flatMap((one) => {
    if (!Array.isArray(one)) return [];
    const [source, target, asset, amount] = one as unknown[];
    const isWhole =
      typeof source === "string" &&
      typeof target === "string" &&
      typeof asset === "string" &&
      typeof amount === "number";
    return isWhole ? [[source, target, asset, amount] as const] : [];
  });
}

export interface AccountLine {
  readonly id: string;
  readonly space: string;
  readonly account: string;
  readonly asset: string;
  readonly balance: number;
}

/** Balances as these postings leave them. Their sum is zero for each space and asset. */
export function balances(lines: Iterable<LedgerLine>): readonly AccountLine[] {
  const found = new Map<string, AccountLine>();
  const add = (line: LedgerLine, account: string, amount: number) => {
    const id = `${line.space}|${account}|${line.unit}`;
    const balance = (found.get(id)?.balance ?? 0) + amount;
    found.set(id, { id, space: line.space, account, asset: line.unit, balance });
  };
  for (const line of lines) {
    if (line.sort !== "posting") continue;
    add(line, line.source, -line.amount);
    add(line, line.target, line.amount);
  }
  return [...found.values()].sort((a, b) => a.id.localeCompare(b.id));
}

export interface CostPoint {
  readonly atUs: number;
  /** Spent up to here. */
  readonly microusd: number;
  readonly tokens: number;
}

/** Kinds of events that say what a provider or a tool has billed. */
const BILLING: ReadonlySet<string> = new Set([
  "model.completed",
  "model.failed",
  "model.attempted",
  "tool.charged",
]);

/** What was spent on models and tools, added up over time: one point per call. */
export function costsOver(events: Iterable<WireEvent>): readonly CostPoint[] {
  const points: CostPoint[] = [];
  let microusd = 0;
  let tokens = 0;
  for (const event of events) {
    if (!BILLING.has(event.kind)) continue;
    if (!flag(event, "unpriced")) microusd += integer(event, "cost");
    tokens += integer(event, "input_tokens") + integer(event, "output_tokens");
    points.push({ atUs: event.at_us, microusd, tokens });
  }
  return points;
}
