import { centre, contains, type Box } from "./layout/box";
import type { Room } from "./layout/rooms";

export interface Drop {
  readonly joins: readonly string[];
  readonly leaves: readonly string[];
}

/**
 * What it means that an agent was dragged: it joins the membranes whose rooms it is in now, and leaves those whose
 * rooms it was in before. The rooms are those of before the drag.
 */
export function dropOf(rooms: readonly Room[], memberOf: readonly string[], from: Box, to: Box): Drop {
  const within = (room: Room, box: Box) => {
    const { x, y } = centre(box);
    return contains(room.box, x, y);
  };
  return {
    joins: rooms.filter((room) => within(room, to) && !memberOf.includes(room.id)).map((room) => room.id),
    leaves: rooms
      .filter((room) => within(room, from) && !within(room, to) && memberOf.includes(room.id))
      .map((room) => room.id),
  };
}
