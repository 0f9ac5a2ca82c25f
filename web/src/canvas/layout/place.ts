import type { Scene, Thing } from "../scene";
import { type Box, overlaps } from "./box";
import {
  agentSpots,
  artifactSpots,
  columnsFor,
  gutterSpots,
  type Lane,
  LANE_HEIGHT,
  laneWidth,
  SIZE,
  type Spot,
  taskSpots,
  underSpots,
} from "./lane";

/** Where somebody put a node by hand; by node. */
export type Moved = ReadonlyMap<string, { readonly x: number; readonly y: number }>;

interface Seat {
  readonly box: Box;
  readonly spot: string;
  /** The lane that it belongs to, or the node that it stands beside. When that is over it is placed anew. */
  readonly home: string;
}

/** Where everything stands. Made by `place` alone. */
export interface Layout {
  readonly seats: ReadonlyMap<string, Seat>;
  readonly lanes: readonly Lane[];
  /** Boxes of what is shown, those that somebody moved where they were moved to. */
  readonly boxes: ReadonlyMap<string, Box>;
}

export const NOTHING_PLACED: Layout = { seats: new Map(), lanes: [], boxes: new Map() };

const SHELF_WIDTH = 6400;
const LANE_GAP = 56;
const SHELF_GAP = 180;

/** Where a thing may be at home, the best first. */
function homesOf(thing: Thing): readonly string[] {
  if (thing.kind === "task") return [thing.beside === "" ? `${thing.mission} ` : thing.beside];
  const membranes = thing.membranes.length === 0 ? [""] : thing.membranes;
  return membranes.map((membrane) => `${thing.mission} ${membrane}`);
}

/**
 * Gives each thing a place, and leaves what has one where it is. Pure: the same scene after the same layout
 * gives the same layout. Places are kept for things that are not in the scene (time travel, another mission).
 */
export function place(before: Layout, scene: Scene, moved: Moved): Layout {
  const work = new Placing(before, scene, moved);
  const order = { agent: 0, artifact: 1, task: 2 } as const;
  for (const thing of scene.things.toSorted((a, b) => order[a.kind] - order[b.kind])) work.seat(thing);
  return work.finish();
}

function isInSeveral(thing: Thing): boolean {
  return thing.membranes.length > 1;
}

class Placing {
  readonly #scene: Scene;
  readonly #moved: Moved;
  readonly #seats: Map<string, Seat>;
  readonly #lanes: Lane[];
  readonly #used: Set<string>;
  /** Places where somebody has put something else. */
  readonly #blocked: readonly Box[];

  constructor(before: Layout, scene: Scene, moved: Moved) {
    this.#scene = scene;
    this.#moved = moved;
    this.#seats = new Map(before.seats);
    this.#lanes = [...before.lanes];
    this.#used = new Set([...before.seats.values()].map((seat) => seat.spot));
    this.#blocked = scene.things.flatMap((thing) => {
      const at = moved.get(thing.node);
      return at === undefined ? [] : [{ ...at, ...SIZE[thing.kind] }];
    });
  }

  seat(thing: Thing): void {
    const homes = homesOf(thing);
    const before = this.#seats.get(thing.node);
    if (before !== undefined && homes.includes(before.home)) return;
    if (before !== undefined) this.#used.delete(before.spot);
    const home = homes.find((one) => this.#lanes.some((lane) => lane.key === one)) ?? homes[0] ?? "";
    const spot = this.#find(thing, home);
    this.#used.add(spot.name);
    this.#seats.set(thing.node, { box: spot.box, spot: spot.name, home });
  }

  finish(): Layout {
    const boxes = new Map<string, Box>();
    for (const thing of this.#scene.things) {
      const seat = this.#seats.get(thing.node);
      if (seat === undefined) continue;
      const at = this.#moved.get(thing.node) ?? this.#carried(thing, seat.box);
      boxes.set(thing.node, { ...seat.box, x: at.x, y: at.y });
    }
    return { seats: this.#seats, lanes: this.#lanes, boxes };
  }

  /** A task goes where its agent was moved to. */
  #carried(thing: Thing, box: Box): { readonly x: number; readonly y: number } {
    const from = thing.kind === "task" ? this.#seats.get(thing.beside)?.box : undefined;
    const to = this.#moved.get(thing.beside);
    if (from === undefined || to === undefined) return box;
    return { x: box.x + to.x - from.x, y: box.y + to.y - from.y };
  }

  #isFree(spot: Spot): boolean {
    return !this.#used.has(spot.name) && !this.#blocked.some((box) => overlaps(box, spot.box, 8));
  }

  #find(thing: Thing, home: string): Spot {
    const beside = this.#seats.get(thing.beside);
    if (thing.kind === "task" && beside !== undefined) {
      const spot = this.#first(underSpots(beside.box));
      if (spot !== null) return spot;
    }
    const key = beside !== undefined && thing.kind === "task" ? beside.home : home;
    for (const lane of this.#lanes) {
      if (lane.key !== key) continue;
      const spot = this.#within(lane, thing, beside?.box.y ?? lane.y);
      if (spot !== null) return spot;
    }
    const lane = this.#begin(key, thing);
    return (
      this.#within(lane, thing, lane.y) ?? { name: `${thing.node}!`, box: { ...lane, ...SIZE[thing.kind] } }
    );
  }

  #first(spots: Iterable<Spot>): Spot | null {
    for (const spot of spots) if (this.#isFree(spot)) return spot;
    return null;
  }

  #within(lane: Lane, thing: Thing, besideY: number): Spot | null {
    if (isInSeveral(thing)) {
      const spot = this.#first(gutterSpots(lane, thing.kind));
      if (spot !== null) return spot;
    }
    if (thing.kind === "agent") return this.#first(this.#unshared(lane));
    if (thing.kind === "artifact") return this.#first(artifactSpots(lane, besideY));
    for (const spot of taskSpots(lane)) {
      if (!this.#used.has(spot.takes) && this.#isFree(spot)) return spot;
    }
    return null;
  }

  /** Places of agents that no tasks have taken. */
  *#unshared(lane: Lane): Generator<Spot> {
    for (const spot of agentSpots(lane)) if (!this.#used.has(`${spot.name} t0`)) yield spot;
  }

  #begin(key: string, thing: Thing): Lane {
    const mine = this.#scene.things.filter(
      (one) => !this.#seats.has(one.node) && (one.kind === "task" ? one === thing : homesOf(one)[0] === key),
    );
    const agents = mine.filter((one) => one.kind !== "artifact").length;
    const artifacts = mine.filter((one) => one.kind === "artifact").length;
    const shape = {
      ...columnsFor(agents + (thing.kind === "artifact" ? 0 : 1), artifacts),
      // Where everybody is in several, nobody stands between two.
      hasGutter: mine.some(isInSeveral) && !mine.every((one) => one.kind !== "agent" || isInSeveral(one)),
    };
    const last = this.#lanes.at(-1);
    let [x, y] = last === undefined ? [0, 0] : [last.x + laneWidth(last) + LANE_GAP, last.y];
    if (x > 0 && x + laneWidth(shape) > SHELF_WIDTH) [x, y] = [0, y + LANE_HEIGHT + SHELF_GAP];
    const lane = { key, x, y, ...shape };
    this.#lanes.push(lane);
    return lane;
  }
}
