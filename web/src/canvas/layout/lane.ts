import type { ThingKind } from "../scene";
import type { Box } from "./box";

export const SIZE: Readonly<Record<ThingKind, { readonly width: number; readonly height: number }>> = {
  agent: { width: 200, height: 84 },
  task: { width: 200, height: 30 },
  artifact: { width: 172, height: 50 },
};

/** Rows of a lane: agents with room for two tasks below, artifacts in a finer rhythm of their own. */
export const ROWS = 6;
const AGENT_PITCH = 176;
const ARTIFACT_ROWS = 15;
const ARTIFACT_PITCH = 70;
const TASK_PITCH = 36;
const UNDER_AGENT = 2;
const PER_PLACE = 4;
const GAP = 28;
/** Between agents and what they make: room for the words on lines. */
const AISLE = 36;
const PAD = 40;
const AGENT_STEP = SIZE.agent.width + GAP;
const ARTIFACT_STEP = SIZE.artifact.width + 20;

export const LANE_HEIGHT = ROWS * AGENT_PITCH;

/**
 * A strip of the canvas for one membrane, or for what is in none. It is as wide as what was there when it began;
 * what does not fit any more begins another lane. Its places never move.
 */
export interface Lane {
  /** Mission and membrane that it is for. */
  readonly key: string;
  readonly x: number;
  readonly y: number;
  readonly agentColumns: number;
  readonly artifactColumns: number;
  /** A column at the right edge for what is in the next membrane too. */
  readonly hasGutter: boolean;
}

export interface Spot {
  /** Unique name of the place in all lanes. */
  readonly name: string;
  readonly box: Box;
}

export function laneWidth(lane: Omit<Lane, "x" | "y" | "key">): number {
  const agents = lane.agentColumns * AGENT_STEP;
  const artifacts = lane.artifactColumns * ARTIFACT_STEP;
  const aisle = lane.agentColumns > 0 ? AISLE : 0;
  return 2 * PAD + agents + aisle + artifacts - GAP + (lane.hasGutter ? AGENT_STEP : 0);
}

function artifactX(lane: Lane, column: number): number {
  return PAD + lane.agentColumns * AGENT_STEP + (lane.agentColumns > 0 ? AISLE : 0) + column * ARTIFACT_STEP;
}

function spot(lane: Lane, name: string, kind: ThingKind, x: number, y: number): Spot {
  return { name: `${lane.x},${lane.y} ${name}`, box: { x: lane.x + x, y: lane.y + y, ...SIZE[kind] } };
}

/** Places for an agent, the best first: down the columns at the left. */
export function* agentSpots(lane: Lane): Generator<Spot> {
  for (let row = 0; row < ROWS; row += 1) {
    for (let column = 0; column < lane.agentColumns; column += 1) {
      yield spot(lane, `a ${column} ${row}`, "agent", PAD + column * AGENT_STEP, row * AGENT_PITCH);
    }
  }
}

/** Places for what is in several membranes. */
export function* gutterSpots(lane: Lane, kind: ThingKind): Generator<Spot> {
  if (!lane.hasGutter) return;
  const x = artifactX(lane, lane.artifactColumns);
  for (let row = 0; row < ROWS; row += 1) yield spot(lane, `g ${row}`, kind, x, row * AGENT_PITCH);
}

/** Places for an artifact: beside its agent, then further down, then from the top. */
export function* artifactSpots(lane: Lane, besideY: number): Generator<Spot> {
  const first = Math.max(0, Math.min(ARTIFACT_ROWS - 1, Math.round((besideY - lane.y) / ARTIFACT_PITCH)));
  for (let index = 0; index < ARTIFACT_ROWS; index += 1) {
    const row = (first + index) % ARTIFACT_ROWS;
    for (let column = 0; column < lane.artifactColumns; column += 1) {
      const x = artifactX(lane, column);
      yield spot(lane, `r ${column} ${row}`, "artifact", x, row * ARTIFACT_PITCH);
    }
  }
}

/** Places below an agent. */
export function* underSpots(agent: Box): Generator<Spot> {
  for (let index = 0; index < UNDER_AGENT; index += 1) {
    const y = agent.y + SIZE.agent.height + 8 + index * TASK_PITCH;
    yield { name: `u ${agent.x},${agent.y} ${index}`, box: { x: agent.x, y, ...SIZE.task } };
  }
}

/** Places for tasks that have no room below their agent: several take the place of one agent. */
export function* taskSpots(
  lane: Lane,
): Generator<Spot & { readonly takes: string; readonly isFirst: boolean }> {
  for (const place of agentSpots(lane)) {
    for (let index = 0; index < PER_PLACE; index += 1) {
      const box = { ...place.box, ...SIZE.task, y: place.box.y + index * TASK_PITCH };
      yield { name: `${place.name} t${index}`, box, takes: place.name, isFirst: index === 0 };
    }
  }
}

/** How wide a lane for so many things is: not much taller than wide, and never endless. */
export function columnsFor(
  agents: number,
  artifacts: number,
): Pick<Lane, "agentColumns" | "artifactColumns"> {
  const some = (count: number, perColumn: number, least: number) =>
    Math.min(12, Math.max(least, Math.ceil(count / perColumn)));
  return {
    agentColumns: agents === 0 && artifacts > 0 ? 0 : some(agents, ROWS - 2, 1),
    artifactColumns: some(artifacts, ARTIFACT_ROWS - 3, agents === 0 ? 1 : 2),
  };
}
