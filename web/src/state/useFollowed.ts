import { type QueryKey, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useEffect } from "react";
import { currentPulse, useBeat } from "./pulse";

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
}

/**
 * An answer of the server that is asked for again whenever something happened to what it is about. One
 * request is under way at a time, so that a world of many ticks is read no faster than it answers.
 */
export function useFollowed<T>({ queryKey, queryFn, follows, enabled = true }: FollowedOptions<T>): {
  readonly data: T | undefined;
  readonly error: Error | null;
  readonly isPending: boolean;
  readonly refetch: () => void;
} {
  const beat = useBeat(follows);
  const query: UseQueryResult<Followed<T>> = useQuery({
    queryKey,
    enabled,
    queryFn: async ({ signal }) => {
      const seen = currentPulse().newest.get(follows) ?? 0;
      return { value: await queryFn(signal), seen };
    },
  });
  const { data, isFetching, isError, refetch } = query;
  const isOld = data !== undefined && data.seen < beat;
  useEffect(() => {
    if (enabled && isOld && !isFetching && !isError) void refetch();
  }, [enabled, isOld, isFetching, isError, refetch]);
  return {
    data: data?.value,
    error: query.error,
    isPending: query.isPending,
    refetch: () => void refetch(),
  };
}
