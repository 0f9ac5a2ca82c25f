import { isUnread } from "@/client/live";
import { type QueryKey, useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { currentPulse, useBeat } from "./pulse";
import { useUi } from "./ui";

interface Followed<T> {
  readonly value: T;
  /** Position of the newest event about it when it was asked for. */
  readonly seen: number;
}

interface FollowedOptions<T> {
  readonly queryKey: QueryKey;
  readonly queryFn: (signal: AbortSignal) => Promise<T>;
  /** Whose events mean that the answer is another one now: `session:x`, `world:w`, `sessions`, `worlds`. */
  readonly follows: string;
  readonly enabled?: boolean;
  /** For what changes without an event: after how many milliseconds it is asked for again, or not. */
  readonly pollMs?: (value: T) => number | false;
}

/**
 * An answer of the server that is asked for again whenever something happened to what it is about. One
 * request is under way at a time, so that a world of many ticks is read no faster than it answers.
 */
export function useFollowed<T>({ queryKey, queryFn, follows, enabled = true, pollMs }: FollowedOptions<T>): {
  readonly data: T | undefined;
  readonly error: Error | null;
  readonly isPending: boolean;
  readonly refetch: () => void;
} {
  const beat = useBeat(follows);
  const isCatchingUp = useUi((state) => isUnread(state.live));
  const tried = useRef(0);
  const query = useQuery<Followed<T>>({
    queryKey,
    enabled,
    refetchInterval: ({ state }) =>
      pollMs === undefined || state.data === undefined ? false : pollMs(state.data.value),
    queryFn: async ({ signal }) => {
      const seen = currentPulse().newest.get(follows) ?? 0;
      return { value: await queryFn(signal), seen };
    },
  });
  const { data, isFetching, isError, refetch } = query;
  const isOld = data !== undefined && data.seen < beat;
  useEffect(() => {
    // While the past is being read, every answer is younger than its events. What failed waits for news.
    if (!enabled || !isOld || isFetching || isCatchingUp || (isError && tried.current >= beat)) return;
    tried.current = beat;
    void refetch();
  }, [enabled, isOld, isFetching, isCatchingUp, isError, beat, refetch]);
  return {
    data: data?.value,
    error: query.error,
    isPending: query.isPending,
    refetch: () => void refetch(),
  };
}
