import { readAgents } from "@/client/worlds";
import { useFollowed } from "@/state/useFollowed";

export const AGENTS_MAX = 2000;

/** Where agents stand, the richest first. */
export function useAgents(world: string) {
  return useFollowed({
    queryKey: ["world-agents", world],
    queryFn: (signal) => readAgents(world, AGENTS_MAX, signal),
    follows: `world:${world}`,
  });
}
