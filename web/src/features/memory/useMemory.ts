import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, path } from "@/client/http";
import { queryClient } from "@/client/queries";
import type { Shape } from "@/client/types";
import { useRefresh } from "@/state/refresh";

export type Block = Shape<"Block">;
export type Entry = Shape<"MemoryEntry">;
export type Change = Shape<"MemoryChange">;
export type Hit = Shape<"Hit">;

/** What events change a memory. */
export const NEWS = ["memory.", "block."] as const;
export const KEY = ["memory"] as const;
const PAGE = 100;

/** After a change of one's own, which is to be seen before its event arrives. */
export function readAgain(): void {
  void queryClient.invalidateQueries({ queryKey: KEY });
}

export interface Memory {
  readonly blocks: readonly Block[];
  readonly entries: readonly Entry[];
  readonly isLoading: boolean;
  readonly error: unknown;
  readonly hasMore: boolean;
  readonly isBusy: boolean;
  readonly more: () => void;
  readonly retry: () => void;
}

/** The blocks of an agent's core memory, and its entries page by page. */
export function useMemory(agent: string): Memory {
  useRefresh(NEWS, KEY);
  const query = useInfiniteQuery({
    queryKey: [...KEY, "of", agent],
    queryFn: ({ pageParam, signal }) =>
      api.get<Shape<"MemoryShown">>(path("memory", agent), { after: pageParam, limit: PAGE }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const pages = query.data?.pages;
  const entries = useMemo(() => pages?.flatMap((page) => page.items) ?? [], [pages]);
  return {
    blocks: pages?.at(-1)?.blocks ?? [],
    entries,
    isLoading: query.isPending,
    error: query.error,
    hasMore: query.hasNextPage,
    isBusy: query.isFetchingNextPage,
    more: () => void query.fetchNextPage(),
    retry: () => void query.refetch(),
  };
}
