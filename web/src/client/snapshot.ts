import type { Agent, Approval, Artifact, Edge, Graph, Mission, Run, Task } from "@/projection/graph";
import type { Asked, Pulse } from "@/projection/pulse";
import { NOTHING, type Snapshot } from "@/projection/store";
import type { Shape } from "./types";

type Name<S extends string> = S extends `${infer Head}_${infer Rest}`
  ? `${Head}${Capitalize<Name<Rest>>}`
  : S;

/** A row as the page names its fields. The server always sends all of them. */
type Named<T> = T extends readonly (infer Item)[]
  ? readonly Named<Item>[]
  : T extends object
    ? { readonly [K in keyof T as K extends string ? Name<K> : K]-?: Named<Exclude<T[K], undefined>> }
    : T;

/** Fields whose keys are ids or names of somebody, and stay as they are. */
const DATA: ReadonlySet<string> = new Set(["details", "by_model", "held", "caps"]);

const names = new Map<string, string>();

function nameOf(field: string): string {
  let name = names.get(field);
  if (name === undefined) {
    name = field.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
    names.set(field, name);
  }
  return name;
}

function renamed(value: unknown): unknown {
  if (Array.isArray(value)) {
    if (value.length === 0 || typeof value[0] !== "object") return value;
    return value.map(renamed);
  }
  if (typeof value !== "object" || value === null) return value;
  const row: Record<string, unknown> = {};
  for (const [field, one] of Object.entries(value)) row[nameOf(field)] = DATA.has(field) ? one : renamed(one);
  return row;
}

function named<T>(value: T): Named<T> {
  return renamed(value) as Named<T>;
}

/** The same map where nothing changes, so that whoever holds it need not look. A row that is null is gone. */
function withEntries<T>(
  before: ReadonlyMap<string, T>,
  changed: readonly (readonly [string, T | null])[],
): ReadonlyMap<string, T> {
  if (changed.length === 0) return before;
  const next = new Map(before);
  for (const [id, row] of changed)
    if (row === null) next.delete(id);
    else next.set(id, row);
  return next;
}

function withRows<T extends { readonly id: string }>(
  before: ReadonlyMap<string, T>,
  rows: readonly T[],
): ReadonlyMap<string, T> {
  return withEntries(
    before,
    rows.map((row) => [row.id, row] as const),
  );
}

/** What the server says of a moment, as the page holds it: over what was there before, the rows that have changed. */
export function readRows(body: Shape<"GraphOut">, before: Snapshot = NOTHING): Snapshot {
  const { costs } = body;
  const { graph } = before;
  const runs = named(body.runs).map((run) => ({ ...run, waits: new Set(run.waits) })) as readonly Run[];
  const membranes = named(body.membranes).map((one) => ({
    ...one,
    members: new Set(one.members),
    shared: new Set(one.shared),
  }));
  const next: Graph = {
    position: body.position,
    atUs: body.at_us,
    events: body.events,
    agents: withRows<Agent>(graph.agents, named(body.agents)),
    tasks: withRows(graph.tasks, named(body.tasks) as readonly Task[]),
    artifacts: withRows<Artifact>(graph.artifacts, named(body.artifacts)),
    membranes: withRows(graph.membranes, membranes),
    missions: withRows<Mission>(graph.missions, named(body.missions)),
    edges: withRows(graph.edges, named(body.edges) as readonly Edge[]),
    runs: withRows(graph.runs, runs),
    approvals: withRows<Approval>(graph.approvals, named(body.approvals)),
    costs: {
      total: named(costs.total ?? {}) as Graph["costs"]["total"],
      byModel: withEntries(
        graph.costs.byModel,
        Object.entries(costs.by_model ?? {}).map(([model, spend]) => [model, named(spend)] as const),
      ),
      held: withEntries(graph.costs.held, Object.entries(costs.held ?? {})),
      caps: withEntries(graph.costs.caps, Object.entries(costs.caps ?? {})),
    },
  };
  return { graph: next, pulse: readPulse(body.pulse, before.pulse), windowFrom: body.window_from };
}

function readPulse(pulse: Shape<"GraphOut">["pulse"], before: Pulse): Pulse {
  return {
    newest: withEntries(before.newest, Object.entries(pulse.newest ?? {})),
    asked: withEntries<Asked>(before.asked, Object.entries(pulse.asked ?? {})),
    ticks: withEntries(before.ticks, Object.entries(pulse.ticks ?? {})),
  };
}
