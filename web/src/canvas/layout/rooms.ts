import type { Scene } from "../scene";
import { around, type Box, centre, contains, grown } from "./box";

/** What is drawn of a membrane: the room, and islands for members that stand elsewhere among others. */
export interface Room {
  readonly id: string;
  readonly box: Box;
  readonly islands: readonly Box[];
}

const PAD = 22;
const LABEL = 12;

function padded(box: Box): Box {
  const wide = grown(box, PAD);
  return { ...wide, y: wide.y - LABEL, height: wide.height + LABEL };
}

/**
 * The shape of each membrane. A room never closes around an agent or artifact that is not in the membrane: a
 * member that cannot be reached without that gets an island of its own. Membranes without members have none.
 */
export function rooms(scene: Scene, boxes: ReadonlyMap<string, Box>): readonly Room[] {
  return scene.membranes.flatMap(({ id }) => {
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
    return [{ id, box: padded(box), islands: islands.map((one) => grown(one, 10)) }];
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
