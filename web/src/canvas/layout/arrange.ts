import { Graph, layout } from "@dagrejs/dagre";

/** What is placed as a whole: an agent with its tasks, or an artifact. */
export interface Block {
  readonly node: string;
  readonly width: number;
  readonly height: number;
  /** The membrane that it stands in; "" for none. */
  readonly home: string;
}

export interface GoalGraph {
  readonly goal: string;
  readonly blocks: readonly Block[];
  /** Pairs of nodes, from where something comes to where it goes. */
  readonly links: readonly (readonly [string, string])[];
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

/** Some blocks that stand together, and where within. */
interface Placed extends Size {
  readonly at: ReadonlyMap<string, Point>;
}

const GAP = 24;
/** Between a block and what comes of it: room for the words on lines. */
const AISLE = 72;
/** Around what a membrane holds: its line and its name. */
const ROOM_PAD = 44;

/**
 * Gives each block of a goal a place, from left to right as things come of each other. Pure and deterministic;
 * it runs in a worker. What a membrane holds is a graph of its own, so that rooms do not lie on each other.
 */
export function arrange({ blocks, links }: GoalGraph): ReadonlyMap<string, Point> {
  const homes = groupBy(blocks, (block) => block.home);
  const homeOf = new Map(blocks.map((block) => [block.node, block.home]));
  const parts = new Map<string, Placed>();
  for (const [home, inside] of homes) {
    const own = links.filter(([from, to]) => homeOf.get(from) === home && homeOf.get(to) === home);
    parts.set(home, padded(placeHome(inside, own), home === "" ? GAP : ROOM_PAD));
  }
  const between = links.flatMap(([from, to]): [string, string][] => {
    const [a, b] = [homeOf.get(from), homeOf.get(to)];
    return a === undefined || b === undefined || a === b ? [] : [[a, b]];
  });
  return placeGraph(parts, between, GAP).at;
}

/** Blocks that hang on the same one, or on none, stand in a grid: a column of a hundred would help nobody. */
function placeHome(blocks: readonly Block[], links: GoalGraph["links"]): Placed {
  const near = new Map<string, Set<string>>(blocks.map((block) => [block.node, new Set()]));
  for (const [from, to] of links) {
    near.get(from)?.add(to);
    near.get(to)?.add(from);
  }
  const leads = new Set(links.map(([from]) => from));
  const groups = groupBy(blocks, ({ node }) => {
    const [only = "", second] = near.get(node) ?? [];
    // Two that hang on nothing but each other are no grid.
    const isLeaf = second === undefined && (only === "" || (near.get(only)?.size ?? 0) > 1);
    return isLeaf ? `${leads.has(node) ? "from" : "to"} ${only}` : `own ${node}`;
  });
  const parts = new Map([...groups].map(([key, members]) => [key, gridOf(members)]));
  const groupOf = new Map([...groups].flatMap(([key, members]) => members.map(({ node }) => [node, key])));
  const between = links.map(([from, to]): [string, string] => [
    groupOf.get(from) ?? "",
    groupOf.get(to) ?? "",
  ]);
  return placeGraph(parts, between, AISLE);
}

/** In rows that are about as wide as high. */
function gridOf(blocks: readonly Block[]): Placed {
  const width = Math.max(...blocks.map((block) => block.width));
  const height = Math.max(...blocks.map((block) => block.height));
  const columns = Math.max(1, Math.round(Math.sqrt((blocks.length * (height + GAP)) / (width + GAP))));
  const rows = Math.ceil(blocks.length / columns);
  const at = new Map(
    blocks.map(({ node }, index) => [
      node,
      { x: (index % columns) * (width + GAP), y: Math.floor(index / columns) * (height + GAP) },
    ]),
  );
  return { at, width: columns * (width + GAP) - GAP, height: rows * (height + GAP) - GAP };
}

function placeGraph(
  parts: ReadonlyMap<string, Placed>,
  links: readonly (readonly [string, string])[],
  aisle: number,
): Placed {
  const graph = new Graph<
    { rankdir: string; nodesep: number; ranksep: number },
    Size & Partial<Point>,
    object
  >();
  graph.setGraph({ rankdir: "LR", nodesep: GAP, ranksep: aisle });
  // Numbers for names: the library keeps some names for itself, and takes none that is empty.
  const nameOf = new Map([...parts.keys()].map((key, index) => [key, `n${index}`]));
  for (const [key, { width, height }] of parts) graph.setNode(nameOf.get(key) ?? "", { width, height });
  for (const [from, to] of links)
    if (from !== to) graph.setEdge(nameOf.get(from) ?? "", nameOf.get(to) ?? "", {});
  layout(graph);
  const at = new Map<string, Point>();
  let [right, bottom] = [0, 0];
  for (const [key, part] of parts) {
    // The library tells centres.
    const { x = 0, y = 0 } = graph.node(nameOf.get(key) ?? "");
    const [left, top] = [Math.round(x - part.width / 2), Math.round(y - part.height / 2)];
    for (const [node, point] of part.at) at.set(node, { x: left + point.x, y: top + point.y });
    [right, bottom] = [Math.max(right, left + part.width), Math.max(bottom, top + part.height)];
  }
  return { at, width: right, height: bottom };
}

function padded({ at, width, height }: Placed, by: number): Placed {
  const moved = new Map([...at].map(([node, { x, y }]) => [node, { x: x + by, y: y + by }]));
  return { at: moved, width: width + 2 * by, height: height + 2 * by };
}

/** Values by key, in their order. (`Map.groupBy` is younger than the Node that tests run on.) */
export function groupBy<K, T>(values: Iterable<T>, keyOf: (value: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const value of values) {
    const key = keyOf(value);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [value]);
    else group.push(value);
  }
  return groups;
}
