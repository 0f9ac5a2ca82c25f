import { integer, missionOf, splitStream, text, type WireEvent } from "./event";

/** What a chat's branch was asked last: which run answers, and how it came to it. */
export interface Asked {
  readonly run: string;
  /** `generate`, `regenerate` or `continue`. */
  readonly trigger: string;
}

/**
 * When something last happened to a chat, a world or a goal, so that whoever shows its details knows when to ask
 * for them again. Two browsers see the same events, so they show the same.
 */
export interface Pulse {
  readonly position: number;
  /** Position of the newest event by `session:x`, `world:w` or `mission:m`, and by `sessions`, `worlds` and `missions` for their lists. */
  readonly newest: ReadonlyMap<string, number>;
  /** By `chat#branch`. */
  readonly asked: ReadonlyMap<string, Asked>;
  /** The newest tick by world. */
  readonly ticks: ReadonlyMap<string, number>;
}

export const STILL: Pulse = { position: 0, newest: new Map(), asked: new Map(), ticks: new Map() };

const TURN_RUN = /^(.+)\/r\d{6,}$/;
const WORLD_SPACE = "world:";
/** What a run of a chat tells that its chat shows. Its steps are followed by its own stream. */
const OF_A_RUN = /^(run|approval)\.(?!phase_changed)/;

/** Folds events in. The same object comes back if none was about one of these. */
export function beat(pulse: Pulse, events: readonly WireEvent[]): Pulse {
  const newest = new Map<string, number>();
  const asked = new Map<string, Asked>();
  const ticks = new Map<string, number>();
  for (const event of events) {
    if (event.position <= pulse.position) continue;
    for (const key of keysOf(event, pulse, newest)) newest.set(key, event.position);
    const [type, id] = splitStream(event.stream);
    if (event.kind === "turn.asked") {
      asked.set(`${id}#${text(event, "branch")}`, {
        run: text(event, "run"),
        trigger: text(event, "trigger"),
      });
    } else if (event.kind === "tick.passed" && type === "world") {
      ticks.set(id, integer(event, "tick"));
    }
  }
  if (newest.size === 0) return pulse;
  return {
    position: events.at(-1)?.position ?? pulse.position,
    newest: new Map([...pulse.newest, ...newest]),
    asked: new Map([...pulse.asked, ...asked]),
    ticks: new Map([...pulse.ticks, ...ticks]),
  };
}

function keysOf(event: WireEvent, pulse: Pulse, newest: ReadonlyMap<string, number>): readonly string[] {
  const [type, id] = splitStream(event.stream);
  if (event.space.startsWith(WORLD_SPACE)) return [event.space, "worlds"];
  if (type === "session") return [event.stream, "sessions"];
  if (type === "tenant" && event.kind.startsWith("world.")) return ["worlds"];
  if (event.kind === "run.started" && text(event, "loop") === "mission") return [`mission:${id}`, "missions"];
  // What belongs to a goal is named after it: tasks, artifacts, steering, membranes.
  const goal = `mission:${missionOf(id) || id}`;
  if (pulse.newest.has(goal) || newest.has(goal)) return [goal, "missions"];
  if (type !== "run" || !OF_A_RUN.test(event.kind)) return [];
  const chat = TURN_RUN.exec(id)?.[1];
  if (chat !== undefined) return [`session:${chat}`];
  // An agent of a world asks in a run `world/agent`.
  const world = `${WORLD_SPACE}${id.slice(0, Math.max(0, id.lastIndexOf("/")))}`;
  return pulse.newest.has(world) || newest.has(world) ? [world] : [];
}

/** The tick at which a world stood after all of these events: the last that passed, 0 before the first. */
export function tickAfter(events: readonly WireEvent[], world: string): number {
  const last = events.findLast(
    (event) => event.kind === "tick.passed" && event.stream === `${WORLD_SPACE}${world}`,
  );
  return last === undefined ? 0 : integer(last, "tick");
}
