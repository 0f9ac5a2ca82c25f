import type { Edge, EdgeKind, Graph } from "@/projection/graph";
import { liveAgents, liveMembranes, madeArtifacts } from "@/projection/vitals";

export type ThingKind = "agent" | "task" | "artifact";

/** What the layout must know of something that the canvas shows. */
export interface Thing {
  /** `agent:churn/analyst`. */
  readonly node: string;
  readonly kind: ThingKind;
  readonly id: string;
  readonly mission: string;
  /** Membranes that it is in, as a member or shared there: the oldest first. */
  readonly membranes: readonly string[];
  /** The node that it belongs beside, such as a task's agent; "" for none. */
  readonly beside: string;
}

export interface Link {
  readonly id: string;
  readonly kind: EdgeKind;
  readonly source: string;
  readonly target: string;
  readonly edge: Edge;
}

/** What the canvas shows: in the order in which it came to be, as far as that is known. */
export interface Scene {
  readonly things: readonly Thing[];
  readonly links: readonly Link[];
  readonly membranes: readonly { readonly id: string; readonly mission: string }[];
}

/** A membership that the server has not told yet: by `agent membrane`, whether the agent is in it. */
export type Pending = ReadonlyMap<string, boolean>;

export const NOTHING_PENDING: Pending = new Map();

export function nodeOf(kind: ThingKind, id: string): string {
  return `${kind}:${id}`;
}

export function membershipKey(agent: string, membrane: string): string {
  return `${agent} ${membrane}`;
}

/** Membranes of an agent, with what is on its way counted as done. */
export function membranesOf(graph: Graph, agent: string, pending = NOTHING_PENDING): readonly string[] {
  return liveMembranes(graph)
    .filter((one) => pending.get(membershipKey(agent, one.id)) ?? one.members.has(agent))
    .map((one) => one.id)
    .sort();
}

/** The scene of a graph; of one mission, or of all with "". */
export function sceneOf(graph: Graph, { mission = "", pending = NOTHING_PENDING } = {}): Scene {
  const wanted = (of: string, id: string) => mission === "" || of === mission || id === mission;
  const membranes = liveMembranes(graph)
    .filter((one) => wanted(one.mission, one.id))
    .map(({ id, mission: of }) => ({ id, mission: of }));
  const memberships = new Map<string, string[]>();
  for (const { id } of membranes) {
    const members = new Set(graph.membranes.get(id)?.members);
    for (const [key, isIn] of pending) {
      const [agent = "", membrane] = key.split(" ");
      if (membrane !== id) continue;
      if (isIn) members.add(agent);
      else members.delete(agent);
    }
    for (const member of members) memberships.set(member, [...(memberships.get(member) ?? []), id]);
  }
  const shown = new Set(membranes.map((one) => one.id));
  const goals = goalsAsTheyCame(graph);
  const things: Thing[] = [
    ...liveAgents(graph)
      .filter((one) => wanted(one.mission, one.id))
      .toSorted((a, b) => (goals.get(a.mission) ?? 0) - (goals.get(b.mission) ?? 0))
      .map((one) => ({
        node: nodeOf("agent", one.id),
        kind: "agent" as const,
        id: one.id,
        mission: one.mission,
        membranes: memberships.get(one.id) ?? [],
        beside: "",
      })),
    ...[...graph.tasks.values()]
      .filter((one) => wanted(one.mission, one.id))
      .map((one) => ({
        node: nodeOf("task", one.id),
        kind: "task" as const,
        id: one.id,
        mission: one.mission,
        membranes: [],
        beside: one.agent === "" ? "" : nodeOf("agent", one.agent),
      })),
    ...madeArtifacts(graph)
      .filter((one) => wanted(one.mission, one.id))
      .sort((a, b) => a.createdUs - b.createdUs || a.id.localeCompare(b.id))
      .map((one) => ({
        node: nodeOf("artifact", one.id),
        kind: "artifact" as const,
        id: one.id,
        mission: one.mission,
        membranes: [...shown].filter((membrane) => one.membranes.includes(membrane)),
        beside: graph.agents.has(one.creator) ? nodeOf("agent", one.creator) : "",
      })),
  ];
  return { things, links: linksOf(graph, new Set(things.map((one) => one.node))), membranes };
}

/** Missions by the order of their first agents: a page that is loaded anew places them as one that was open. */
function goalsAsTheyCame(graph: Graph): ReadonlyMap<string, number> {
  const goals = new Map<string, number>();
  for (const one of graph.agents.values()) if (!goals.has(one.mission)) goals.set(one.mission, goals.size);
  return goals;
}

function linksOf(graph: Graph, there: ReadonlySet<string>): readonly Link[] {
  const links: Link[] = [];
  for (const edge of graph.edges.values()) {
    const source = endOf(edge.source, there);
    const target = endOf(edge.target, there);
    if (source === null || target === null) continue;
    links.push({ id: edge.id, kind: edge.kind, source, target, edge });
  }
  return links;
}

const ENDS: readonly ThingKind[] = ["agent", "artifact", "task"];

function endOf(id: string, there: ReadonlySet<string>): string | null {
  for (const kind of ENDS) if (there.has(nodeOf(kind, id))) return nodeOf(kind, id);
  return null;
}
