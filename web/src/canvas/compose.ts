import { counted } from "@/projection/counted";
import type { Graph, Membrane } from "@/projection/graph";
import { shortName } from "@/projection/event";
import type { Selection } from "@/state/ui";
import type { FlowLine } from "./edges/FlowEdge";
import type { Box } from "./layout/box";
import type { Cluster, Detail } from "./layout/detail";
import type { Room } from "./layout/rooms";
import type { AnyNode } from "./nodes/types";
import type { Scene, Thing } from "./scene";
import { agentWords, edgeWord, taskEndWords, taskTitle } from "./words";

export const MOUNTED_MAX = 300;

export interface Composed {
  readonly nodes: AnyNode[];
  readonly lines: readonly FlowLine[];
}

export interface Staging {
  readonly graph: Graph;
  readonly scene: Scene;
  readonly boxes: ReadonlyMap<string, Box>;
  readonly rooms: readonly Room[];
  readonly detail: Detail;
  readonly selected: string;
  readonly live: ReadonlySet<string>;
  readonly pendingAgents: ReadonlySet<string>;
  readonly canMove: boolean;
}

/** The node that shows what is selected; "" if nothing does. */
export function selectedNode(selection: Selection | null): string {
  if (selection === null) return "";
  if (selection.kind === "membrane") return `room:${selection.id}`;
  return `${selection.kind === "run" ? "task" : selection.kind}:${selection.id}`;
}

/**
 * Nodes for React Flow, and the lines below them. Keeps those of before whose values did not change, so that only what
 * changed is drawn anew.
 */
export class Composer {
  #nodes = new Map<string, { readonly values: readonly unknown[]; readonly node: AnyNode }>();
  #lines = new Map<string, FlowLine>();

  compose(staging: Staging): Composed {
    const nodes = [...this.#rooms(staging), ...this.#things(staging), ...this.#clusters(staging)];
    this.#nodes = new Map(nodes.map((kept) => [kept.node.id, kept]));
    const lines = staging.detail.isClustered ? this.#bundles(staging) : this.#single(staging);
    this.#lines = new Map(lines.map((line) => [line.id, line]));
    return { nodes: nodes.map(({ node }) => node), lines };
  }

  #keep(id: string, values: readonly unknown[], make: () => AnyNode) {
    const before = this.#nodes.get(id);
    if (before !== undefined && values.every((value, index) => value === before.values[index])) return before;
    return { values, node: make() };
  }

  #rooms({ graph, rooms, detail, selected }: Staging) {
    if (detail.isClustered) return [];
    const ofMission = new Map<string, number>();
    const all = rooms.flatMap((room) => {
      const membrane = graph.membranes.get(room.id);
      if (membrane === undefined) return [];
      const index = ofMission.get(membrane.mission) ?? 0;
      ofMission.set(membrane.mission, index + 1);
      const tone = index % 2 === 0 ? ("membrane" as const) : ("membrane2" as const);
      return [room.box, ...room.islands].map((box, number) => ({ room, membrane, tone, box, number }));
    });
    return all.slice(0, Math.max(0, MOUNTED_MAX - detail.things.length)).map((one) => {
      const id = one.number === 0 ? `room:${one.room.id}` : `room:${one.room.id}#${one.number}`;
      const isSelected = selected === `room:${one.room.id}`;
      const { membrane, tone, box } = one;
      const { depth } = one.room;
      return this.#keep(id, [membrane, tone, depth, ...Object.values(box), isSelected], () => ({
        ...frame(id, box, isSelected),
        type: "room" as const,
        zIndex: -1,
        draggable: false,
        ariaLabel: roomLabel(membrane),
        data: { membrane, tone, depth, isIsland: one.number > 0 },
      }));
    });
  }

  #things(staging: Staging) {
    return staging.detail.things.flatMap((thing) => {
      const box = staging.boxes.get(thing.node);
      return box === undefined ? [] : (this.#thing(thing, box, staging) ?? []);
    });
  }

  #thing(thing: Thing, box: Box, { graph, selected, pendingAgents, canMove }: Staging) {
    const isSelected = selected === thing.node;
    // A task stands with its agent: alone it could not be moved without being left behind.
    const draggable = canMove && (thing.kind !== "task" || thing.beside === "");
    const shared = { ...frame(thing.node, box, isSelected), draggable, zIndex: isSelected ? 1 : 0 };
    const place = [box.x, box.y, isSelected, canMove];
    if (thing.kind === "agent") {
      const agent = graph.agents.get(thing.id);
      if (agent === undefined) return null;
      const run = graph.runs.get(agent.runId);
      const task = graph.tasks.get(agent.task);
      const isPending = pendingAgents.has(thing.id);
      return this.#keep(thing.node, [agent, run, task, isPending, ...place], () => {
        const words = agentWords(graph, agent);
        const label = `Agent ${agent.name}, ${words.word}`;
        return {
          ...shared,
          type: "agent" as const,
          ariaLabel: label,
          data: { agent, run, words, isPending },
        };
      });
    }
    if (thing.kind === "task") {
      const task = graph.tasks.get(thing.id);
      if (task === undefined) return null;
      return this.#keep(thing.node, [task, ...place], () => {
        const words = taskEndWords(task);
        const label = `Task ${shortName(task.id)}, ${words.word}`;
        const title = taskTitle(graph, task);
        return { ...shared, type: "task" as const, ariaLabel: label, data: { task, title, words } };
      });
    }
    const artifact = graph.artifacts.get(thing.id);
    if (artifact === undefined) return null;
    const maker = graph.agents.get(artifact.creator)?.name ?? shortName(artifact.creator);
    return this.#keep(thing.node, [artifact, maker, ...place], () => ({
      ...shared,
      type: "artifact" as const,
      ariaLabel: `Artifact ${artifact.title}, ${artifact.kind}, version ${artifact.version}`,
      data: { artifact, maker },
    }));
  }

  #clusters({ graph, detail, selected }: Staging) {
    return detail.clusters.map((cluster, index) => {
      const counts = countsOf(cluster, graph);
      const membrane = graph.membranes.get(cluster.about);
      const isSelected = membrane !== undefined && selected === `room:${cluster.about}`;
      const title = membrane?.name ?? (cluster.about === "" ? "Here" : shortName(cluster.about));
      const tone = index % 2 === 0 ? ("membrane" as const) : ("membrane2" as const);
      const data = { title, isMembrane: membrane !== undefined, tone, ...counts };
      const values = [...Object.values(data), ...Object.values(cluster.box), isSelected];
      return this.#keep(cluster.node, values, () => ({
        ...frame(cluster.node, cluster.box, isSelected),
        type: "cluster" as const,
        draggable: false,
        ariaLabel: `${title}: ${counted(counts.agents, "agent")}, ${counts.done} of ${counted(counts.tasks, "task")} done, ${counted(counts.artifacts, "artifact")}`,
        data,
      }));
    });
  }

  #single({ scene, boxes, detail, selected, live }: Staging) {
    return scene.links.flatMap((link) => {
      const from = boxes.get(link.source);
      const to = boxes.get(link.target);
      if (from === undefined || to === undefined) return [];
      // A line may lead out of sight, but one that nothing in sight belongs to is not drawn.
      if (!detail.standsFor.has(link.source) && !detail.standsFor.has(link.target)) return [];
      const isNear = selected !== "" && (selected === link.source || selected === link.target);
      const isLive = live.has(link.id);
      const { count } = link.edge;
      const label = count > 1 ? `${edgeWord(link.kind)} ×${count}` : edgeWord(link.kind);
      return [this.#line({ id: link.id, kind: link.kind, from, to, label, isLive, isNear })];
    });
  }

  /** One line between two clusters, however many are behind it. */
  #bundles({ scene, detail, live }: Staging) {
    const boxOf = new Map(detail.clusters.map((cluster) => [cluster.node, cluster.box]));
    const bundles = new Map<string, { source: string; target: string; count: number; isLive: boolean }>();
    for (const link of scene.links) {
      const source = detail.standsFor.get(link.source);
      const target = detail.standsFor.get(link.target);
      if (source === undefined || target === undefined || source === target) continue;
      const id = `${source}>${target}`;
      const bundle = bundles.get(id) ?? { source, target, count: 0, isLive: false };
      bundle.count += 1;
      bundle.isLive ||= live.has(link.id);
      bundles.set(id, bundle);
    }
    return [...bundles].slice(0, MOUNTED_MAX).flatMap(([id, { source, target, count, isLive }]) => {
      const [from, to] = [boxOf.get(source), boxOf.get(target)];
      if (from === undefined || to === undefined) return [];
      const label = counted(count, "link");
      return [this.#line({ id, kind: "many", from, to, label, isLive, isNear: false })];
    });
  }

  #line(line: FlowLine): FlowLine {
    const before = this.#lines.get(line.id);
    return before !== undefined && isSame(before, line) ? before : line;
  }
}

function isSame(a: FlowLine, b: FlowLine): boolean {
  const plain = ({ label, isLive, isNear, from, to }: FlowLine) => [
    label,
    isLive,
    isNear,
    ...Object.values(from),
    ...Object.values(to),
  ];
  const values = plain(b);
  return plain(a).every((value, index) => value === values[index]);
}

/** What all nodes have. Sizes are given, so that nothing must be measured first. */
function frame(id: string, box: Box, selected: boolean) {
  return {
    id,
    position: { x: box.x, y: box.y },
    width: box.width,
    height: box.height,
    measured: { width: box.width, height: box.height },
    selected,
  };
}

function roomLabel(membrane: Membrane): string {
  return `Membrane ${membrane.name}, ${counted(membrane.members.size, "member")}, ${membrane.shared.size} shared`;
}

function countsOf(cluster: Cluster, graph: Graph) {
  const counts = { agents: 0, tasks: 0, done: 0, notDone: 0, artifacts: 0, working: 0, waiting: 0 };
  for (const thing of cluster.things) {
    if (thing.kind === "task") {
      const status = graph.tasks.get(thing.id)?.status;
      counts.tasks += 1;
      if (status === "done") counts.done += 1;
      if (status === "failed" || status === "blocked") counts.notDone += 1;
    } else if (thing.kind === "artifact") counts.artifacts += 1;
    else {
      counts.agents += 1;
      const status = graph.runs.get(graph.agents.get(thing.id)?.runId ?? "")?.status;
      if (status === "running") counts.working += 1;
      if (status === "waiting_approval" || status === "unknown_outcome") counts.waiting += 1;
    }
  }
  return counts;
}
