import { readWorld } from "@/client/worlds";
import { useFollowed } from "@/state/useFollowed";

const PASSING_MS = 2000;

/** How a world stands. While ticks are passed it is asked for again: their end is no event. */
export function useWorld(id: string) {
  return useFollowed({
    queryKey: ["world", id],
    queryFn: (signal) => readWorld(id, signal),
    follows: `world:${id}`,
    pollMs: (world) => (world.passing === null ? false : PASSING_MS),
  });
}
