import type { Scene } from "../scene";
import { around, type Box, centre, contains, grown } from "./box";

/** What is drawn of a membrane: the room, and islands for members that stand elsewhere among others. */
export interface Room {
  readonly id: string;
  readonly box: Box;
  readonly islands: readonly Box[];
  /** How many rooms it stands within, so that lines and names of rooms do not lie on each other. */
  readonly depth: number;
}

const PAD = 22;
const LABEL = 12;

const STEP = 5;

function padded(box: Box, depth: number): Box {
  const wide = grown(box, Math.max(6, PAD - STEP * depth));
  return { ...wide, y: wide.y - LABEL, height: wide.height + LABEL };
}

/** How many of the rooms before, or of those that are larger, hold this one. */
function depthOf(index: number, cores: readonly Box[]): number {
  const core = cores[index];
  if (core === undefined) return 0;
  return cores.filter(
    (other, at) => at !== index && holdsBox(other, core) && (at < index || !holdsBox(core, other)),
  ).length;
}

function holdsBox(outer: Box, inner: Box): boolean {
  return (
    inner.x >= outer.x &&
    inner.y >= outer.y &&
    inner.x + inner.width <= outer.x + outer.width &&
    inner.y + inner.height <= outer.y + outer.height
  );
}

/**
 * The shape of each membrane. A room never closes around an agent or artifact that is not in the membrane: a
 * member that cannot be reached without that gets an island of its own. Membranes without members have none.
 */
export function rooms(scene: Scene, boxes: ReadonlyMap<string, Box>): readonly Room[] {
  const found = scene.membranes.flatMap(({ id }) => {
    const inside: Box[] = [];
    const outside: Box[] = [];
    const agents = new Set<string>();
    for (const thing of scene.things) {
      const box = boxes.get(thing.node);
      if (box === undefined || thing.kind === "task") continue;
      if (!thing.membranes.includes(id)) outside.push(box);
      else {
        inside.push(box);
        if (thing.kind === "agent") agents.add(thing.node);
      }
    }
    if (inside.length === 0) return [];
    const { core, islands } = closed(inside, outside);
    // Tasks stand with their agents, so the room holds those that are near.
    const tasks = scene.things.flatMap((thing) => {
      const box = thing.kind === "task" && agents.has(thing.beside) ? boxes.get(thing.node) : undefined;
      return box !== undefined && isNear(box, core) ? [box] : [];
    });
    const whole = around([core, ...tasks]) ?? core;
    const box = holdsNone(whole, outside) ? whole : core;
    return [{ id, core: box, islands: islands.map((one) => grown(one, 10)) }];
  });
  const cores = found.map((one) => one.core);
  return found.map(({ id, core, islands }, index) => {
    const depth = depthOf(index, cores);
    return { id, box: padded(core, depth), islands, depth };
  });
}

function isNear(box: Box, core: Box): boolean {
  const { x, y } = centre(box);
  return contains(grown(core, 200), x, y);
}

function holdsNone(box: Box, others: readonly Box[]): boolean {
  return others.every((other) => {
    const { x, y } = centre(other);
    return !contains(box, x, y);
  });
}

/** Grows a room from the middle of its members, nearest first, as long as it holds no stranger. */
function closed(inside: readonly Box[], outside: readonly Box[]) {
  const all = around(inside);
  if (all !== null && holdsNone(all, outside)) return { core: all, islands: [] };
  const middle = median(inside);
  const byDistance = inside.toSorted((a, b) => distance(a, middle) - distance(b, middle));
  let core = byDistance[0] as Box;
  const islands: Box[] = [];
  for (const box of byDistance.slice(1)) {
    const next = around([core, box]);
    if (next !== null && holdsNone(next, outside)) core = next;
    else islands.push(box);
  }
  return { core, islands };
}

function median(boxes: readonly Box[]) {
  const middle = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1] ?? 0;
  return { x: middle(boxes.map((box) => centre(box).x)), y: middle(boxes.map((box) => centre(box).y)) };
}

function distance(box: Box, to: { readonly x: number; readonly y: number }): number {
  const { x, y } = centre(box);
  return Math.hypot(x - to.x, y - to.y);
}
