import type { Agent, Approval, Artifact, Edge, Graph, Mission, Run, Task } from "@/projection/graph";
import type { Asked, Pulse } from "@/projection/pulse";
import type { Snapshot } from "@/projection/store";
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

function byId<T extends { readonly id: string }>(rows: readonly T[]): ReadonlyMap<string, T> {
  return new Map(rows.map((row) => [row.id, row]));
}

/** What the server says of a moment, as the page holds it: from there events are folded. */
export function readSnapshot(body: Shape<"GraphOut">): Snapshot {
  const { costs, pulse } = body;
  const runs = named(body.runs).map((run) => ({ ...run, waits: new Set(run.waits) })) as readonly Run[];
  const membranes = named(body.membranes).map((one) => ({
    ...one,
    members: new Set(one.members),
    shared: new Set(one.shared),
  }));
  const graph: Graph = {
    position: body.position,
    atUs: body.at_us,
    events: body.events,
    agents: byId<Agent>(named(body.agents)),
    tasks: byId<Task>(named(body.tasks) as readonly Task[]),
    artifacts: byId<Artifact>(named(body.artifacts)),
    membranes: byId(membranes),
    missions: byId<Mission>(named(body.missions)),
    edges: byId<Edge>(named(body.edges) as readonly Edge[]),
    runs: byId(runs),
    approvals: byId<Approval>(named(body.approvals)),
    costs: {
      total: named(costs.total ?? {}) as Graph["costs"]["total"],
      byModel: new Map(Object.entries(costs.by_model ?? {}).map(([model, spend]) => [model, named(spend)])),
      held: new Map(Object.entries(costs.held ?? {})),
      caps: new Map(Object.entries(costs.caps ?? {})),
    },
  };
  return { graph, pulse: readPulse(pulse, body.position), windowFrom: body.window_from };
}

function readPulse(pulse: Shape<"GraphOut">["pulse"], position: number): Pulse {
  return {
    position,
    newest: new Map(Object.entries(pulse.newest ?? {})),
    asked: new Map(Object.entries(pulse.asked ?? {})) as ReadonlyMap<string, Asked>,
    ticks: new Map(Object.entries(pulse.ticks ?? {})),
  };
}
