import { useQuery, type UseQueryResult, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";

/** Between two readings while events rush in. */
export const REFRESH_MS = 400;

/**
 * What the server says of one thing in detail, read again soon after `revision` changes (something happened
 * to it), but not for each of many events.
 */
export function useDetail<T>(
  key: readonly unknown[],
  load: (signal: AbortSignal) => Promise<T>,
  revision: string,
  { enabled = true }: { readonly enabled?: boolean } = {},
): UseQueryResult<T> {
  const client = useQueryClient();
  const name = JSON.stringify(key);
  const seen = useRef({ name, revision });
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);

  useEffect(() => {
    const before = seen.current;
    seen.current = { name, revision };
    if (before.name !== name || before.revision === revision || timer.current !== undefined) return;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      void client.invalidateQueries({ queryKey: JSON.parse(name) as unknown[], exact: true });
    }, REFRESH_MS);
  }, [client, name, revision]);

  useEffect(() => {
    return () => {
      // A timer of what is no longer shown would read for nobody.
      clearTimeout(timer.current);
      timer.current = undefined;
    };
  }, [name]);

  return useQuery({ queryKey: key, queryFn: ({ signal }) => load(signal), enabled });
}
