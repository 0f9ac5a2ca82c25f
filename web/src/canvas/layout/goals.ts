import type { Scene, Thing, ThingKind } from "../scene";
import { type Block, type GoalGraph, groupBy, type Point } from "./arrange";
import { around, type Box, overlaps } from "./box";

export const SIZE: Readonly<Record<ThingKind, { readonly width: number; readonly height: number }>> = {
  agent: { width: 200, height: 84 },
  task: { width: 200, height: 30 },
  artifact: { width: 172, height: 50 },
};

/** Where somebody put a node by hand, from the corner of its goal; by node. */
export type Moved = ReadonlyMap<string, Point>;

/** Places of the blocks of each goal, as the layout gave them. */
export type Places = ReadonlyMap<string, ReadonlyMap<string, Point>>;

/** Where everything stands, and where each goal begins. */
export interface Layout {
  readonly boxes: ReadonlyMap<string, Box>;
  readonly origins: ReadonlyMap<string, Point>;
}

const TASK_GAP = 6;
const UNDER_AGENT = 8;
/** Tasks below each other; what does not fit stands in further columns. */
const TASK_ROWS = 12;
const SHELF_WIDTH = 6400;
const GOAL_GAP = 120;

/** What is placed with a thing: itself, and the tasks of an agent below it, from its corner. */
type Parts = readonly (readonly [node: string, box: Box])[];

interface GoalParts extends GoalGraph {
  readonly parts: ReadonlyMap<string, Parts>;
}

/** One graph a goal: its blocks with what stands within them, and what connects them. */
export function goalsOf(scene: Scene): readonly GoalParts[] {
  const agents = new Set(scene.things.filter((one) => one.kind === "agent").map((one) => one.node));
  const tasks = groupBy(
    scene.things.filter((one) => one.kind === "task" && agents.has(one.beside)),
    (one) => one.beside,
  );
  const blockOf = new Map([...tasks].flatMap(([agent, own]) => own.map((task) => [task.node, agent])));
  const heads = scene.things.filter((one) => !blockOf.has(one.node));
  const goalOf = new Map(heads.map((one) => [one.node, one.mission]));
  const links = new Map<string, [string, string][]>();
  for (const { source, target } of scene.links) {
    const [from, to] = [blockOf.get(source) ?? source, blockOf.get(target) ?? target];
    const goal = goalOf.get(from);
    if (from === to || goal === undefined || goal !== goalOf.get(to)) continue;
    links.set(goal, [...(links.get(goal) ?? []), [from, to]]);
  }
  return [...groupBy(heads, (one) => one.mission)].map(([goal, things]) => {
    const parts = new Map(things.map((one) => [one.node, partsOf(one, tasks.get(one.node) ?? [])]));
    const blocks = things.map((one): Block => {
      const { width, height } = around((parts.get(one.node) ?? []).map(([, box]) => box)) ?? SIZE[one.kind];
      return { node: one.node, width, height, home: one.membranes[0] ?? "" };
    });
    return { goal, blocks, links: links.get(goal) ?? [], parts };
  });
}

function partsOf(thing: Thing, tasks: readonly Thing[]): Parts {
  const under = SIZE.agent.height + UNDER_AGENT;
  return [
    [thing.node, { x: 0, y: 0, ...SIZE[thing.kind] }],
    ...tasks.map(({ node }, index): [string, Box] => {
      const x = Math.floor(index / TASK_ROWS) * (SIZE.task.width + UNDER_AGENT);
      const y = under + (index % TASK_ROWS) * (SIZE.task.height + TASK_GAP);
      return [node, { x, y, ...SIZE.task }];
    }),
  ];
}

/** All goals beside each other, in the order in which they came. What has no place yet is left out. */
export function spread(goals: readonly GoalParts[], places: Places, moved: Moved): Layout {
  const boxes = new Map<string, Box>();
  const origins = new Map<string, Point>();
  let [x, y, shelf] = [0, 0, 0];
  for (const goal of goals) {
    const own = blocksAt(goal, places.get(goal.goal) ?? new Map(), moved);
    const bounds = around(own.values());
    if (bounds === null) continue;
    if (x > 0 && x + bounds.width > SHELF_WIDTH) [x, y, shelf] = [0, y + shelf + GOAL_GAP, 0];
    const origin = goals.length === 1 ? { x: 0, y: 0 } : { x: x - bounds.x, y: y - bounds.y };
    origins.set(goal.goal, origin);
    for (const [node, block] of own)
      for (const [part, box] of goal.parts.get(node) ?? [])
        boxes.set(part, { ...box, x: origin.x + block.x + box.x, y: origin.y + block.y + box.y });
    x += bounds.width + GOAL_GAP;
    shelf = Math.max(shelf, bounds.height);
  }
  return { boxes, origins };
}

/** Blocks where they were placed, or where somebody put them; the rest makes room, so that nothing overlaps. */
function blocksAt(
  { blocks, parts }: GoalParts,
  places: ReadonlyMap<string, Point>,
  moved: Moved,
): ReadonlyMap<string, Box> {
  const at = (block: Block, point: Point | undefined): [string, Box][] =>
    point === undefined ? [] : [[block.node, { ...point, width: block.width, height: block.height }]];
  const byNode = new Map(blocks.map((block) => [block.node, block]));
  // The last one that was moved stands where it was put.
  const pinned = [...moved.keys()].reverse().flatMap((node) => {
    const block = parts.has(node) ? byNode.get(node) : undefined;
    return block === undefined || !places.has(node) ? [] : at(block, moved.get(node));
  });
  const placed = blocks.flatMap((block) => (moved.has(block.node) ? [] : at(block, places.get(block.node))));
  if (pinned.length === 0) return new Map(placed);
  placed.sort(([, a], [, b]) => a.y - b.y || a.x - b.x);
  const settled: Box[] = [];
  return new Map(
    [...pinned, ...placed].map(([node, box]) => {
      const free = below(box, settled);
      settled.push(free);
      return [node, free];
    }),
  );
}

const CLEAR = 12;

/** The first free place below, if this one is taken. */
function below(box: Box, others: readonly Box[]): Box {
  let free = box;
  for (;;) {
    const taken = others.filter((other) => overlaps(free, other, CLEAR / 2));
    if (taken.length === 0) return free;
    free = { ...free, y: Math.max(...taken.map((other) => other.y + other.height)) + CLEAR };
  }
}
