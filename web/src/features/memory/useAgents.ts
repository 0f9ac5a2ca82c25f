import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api } from "@/client/http";
import type { Shape } from "@/client/types";
import { liveAgents } from "@/projection/vitals";
import { useProjection } from "@/state/log";
import { useRefresh } from "@/state/refresh";
import { KEY, NEWS } from "./useMemory";

export interface AgentLine {
  readonly agent: string;
  /** null: it has no memory yet. */
  readonly entries: number | null;
}

/** Agents with a memory as the server counts them, then those that the log knows and that may begin one. */
export function useAgents() {
  useRefresh(NEWS, KEY);
  const known = useProjection(liveAgents);
  const query = useInfiniteQuery({
    queryKey: [...KEY, "agents"],
    queryFn: ({ pageParam, signal }) =>
      api.get<{ readonly items: readonly Shape<"MemoryLine">[]; readonly next: string | null }>(
        "/memory",
        { after: pageParam, limit: 500 },
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const pages = query.data?.pages;
  const lines = useMemo((): readonly AgentLine[] => {
    const remembering = pages?.flatMap((page) => page.items) ?? [];
    const names = new Set(remembering.map((one) => one.agent));
    const others = known.filter((one) => !names.has(one.id) && one.runId !== "");
    return [...remembering, ...others.map((one) => ({ agent: one.id, entries: null }))];
  }, [pages, known]);
  return {
    lines,
    isLoading: query.isPending,
    error: query.error,
    retry: () => void query.refetch(),
    hasMore: query.hasNextPage,
    more: () => void query.fetchNextPage(),
  };
}
