import type { Scene, Thing } from "../scene";
import { around, type Box, overlaps } from "./box";

/** Nodes with all their detail at once. */
export const DETAILED_MAX = 120;
/** Detail comes back at fewer, so that a small move does not switch to and fro. */
const DETAILED_AGAIN = 96;
const CLUSTERS_MAX = 120;
const GRID_BEGINS = 1600;

/** Many things that are drawn as one. */
export interface Cluster {
  /** `cluster:<membrane, mission or place>`. */
  readonly node: string;
  /** The membrane or mission that it stands for; "" for a part of the plane. */
  readonly about: string;
  readonly box: Box;
  readonly things: readonly Thing[];
}

export interface Detail {
  /** What is mounted with all its detail. */
  readonly things: readonly Thing[];
  readonly clusters: readonly Cluster[];
  /** The node that stands for a thing, if one does. */
  readonly standsFor: ReadonlyMap<string, string>;
  readonly isClustered: boolean;
}

/** What to mount for a part of the plane: never more than 120 nodes, whatever the zoom. */
export function detailOf(
  scene: Scene,
  boxes: ReadonlyMap<string, Box>,
  view: Box,
  wasClustered = false,
): Detail {
  const seen = scene.things.filter((thing) => isSeen(boxes.get(thing.node), view));
  const most = wasClustered ? DETAILED_AGAIN : DETAILED_MAX;
  if (seen.length <= most) {
    const standsFor = new Map(seen.map(({ node }) => [node, node]));
    return { things: seen, clusters: [], standsFor, isClustered: false };
  }
  const clusters = clustersOf(scene, boxes).filter((cluster) => overlaps(cluster.box, view));
  const standsFor = new Map<string, string>();
  for (const cluster of clusters) for (const { node } of cluster.things) standsFor.set(node, cluster.node);
  return { things: [], clusters, standsFor, isClustered: true };
}

function isSeen(box: Box | undefined, view: Box): boolean {
  return box !== undefined && overlaps(box, view);
}

type Grouping = (thing: Thing, box: Box) => string;

/** By membrane; if those are too many by mission; if those are by place, in ever larger squares. */
function clustersOf(scene: Scene, boxes: ReadonlyMap<string, Box>): readonly Cluster[] {
  const homes = new Map(scene.things.map((thing) => [thing.node, homeOf(thing)]));
  const byHome: Grouping = (thing) =>
    (thing.kind === "task" ? homes.get(thing.beside) : undefined) ?? homeOf(thing);
  let clusters = grouped(scene, boxes, byHome);
  if (clusters.length > CLUSTERS_MAX) clusters = grouped(scene, boxes, (thing) => thing.mission);
  if (clusters.length <= CLUSTERS_MAX) return clusters;
  for (let size = GRID_BEGINS; ; size *= 2) {
    const bySquare: Grouping = (_, box) => `#${Math.floor(box.x / size)} ${Math.floor(box.y / size)}`;
    clusters = grouped(scene, boxes, bySquare);
    if (clusters.length <= CLUSTERS_MAX) return clusters;
  }
}

function homeOf(thing: Thing): string {
  return thing.membranes[0] ?? thing.mission;
}

function grouped(scene: Scene, boxes: ReadonlyMap<string, Box>, by: Grouping): readonly Cluster[] {
  const groups = new Map<string, { things: Thing[]; boxes: Box[] }>();
  for (const thing of scene.things) {
    const box = boxes.get(thing.node);
    if (box === undefined) continue;
    const key = by(thing, box);
    const group = groups.get(key) ?? { things: [], boxes: [] };
    group.things.push(thing);
    group.boxes.push(box);
    groups.set(key, group);
  }
  return [...groups].flatMap(([key, group]) => {
    const box = around(group.boxes);
    const about = key.startsWith("#") ? "" : key;
    return box === null ? [] : [{ node: `cluster:${key}`, about, box, things: group.things }];
  });
}
