import { queryClient } from "@/client/queries";
import { readFigures, type TickFigures } from "@/client/worlds";
import { useFollowed } from "./useFollowed";

interface Wish {
  /** How many of the newest ticks. */
  readonly span: number;
  /** Whose balance is told in a world of many agents. */
  readonly agent?: string;
}

/** Figures tick by tick, kept up to date as ticks pass. */
export function useWorldFigures(world: string, { span, agent }: Wish) {
  const queryKey = ["world-figures", world, span, agent ?? ""];
  return useFollowed({
    queryKey,
    follows: `world:${world}`,
    queryFn: (signal) => {
      const known =
        queryClient.getQueryData<{ readonly value: readonly TickFigures[] }>(queryKey)?.value ?? [];
      return readFigures(world, { span, known, ...(agent !== undefined && { agent }) }, signal);
    },
  });
}
