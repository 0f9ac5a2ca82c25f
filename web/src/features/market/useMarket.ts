import { readMarket } from "@/client/worlds";
import { useFollowed } from "@/state/useFollowed";

/** Offers and prices of a world, kept up to date as ticks pass. */
export function useMarket(world: string) {
  return useFollowed({
    queryKey: ["market", world],
    queryFn: (signal) => readMarket(world, signal),
    follows: `world:${world}`,
  });
}
