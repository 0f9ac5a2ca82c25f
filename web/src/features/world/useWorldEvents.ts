import { readEvents } from "@/client/worlds";
import { useFollowed } from "@/state/useFollowed";

export const EVENTS_MAX = 500;

interface Wish {
  readonly kind?: readonly string[];
  readonly agent?: string;
  readonly limit?: number;
}

/** The newest events of a world, the newest first, kept up to date. */
export function useWorldEvents(world: string, { kind, agent, limit = EVENTS_MAX }: Wish) {
  return useFollowed({
    queryKey: ["world-events", world, kind ?? [], agent ?? "", limit],
    queryFn: (signal) =>
      readEvents(
        world,
        { limit, ...(kind !== undefined && { kind }), ...(agent !== undefined && { agent }) },
        signal,
      ),
    follows: `world:${world}`,
  });
}
