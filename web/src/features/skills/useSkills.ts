import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api } from "@/client/http";
import { useRefresh } from "@/state/refresh";
import { inOrder, KEY, NEWS, type Skill, type Status } from "./words";

const PAGE = 500;

/** The skills that were ever seen, of one status or all. */
export function useSkills(status: Status | "") {
  useRefresh(NEWS, KEY);
  const query = useInfiniteQuery({
    queryKey: [...KEY, "list", status],
    queryFn: ({ pageParam, signal }) =>
      api.get<{ readonly items: readonly Skill[]; readonly next: string | null }>(
        "/skills",
        { status: status || null, after: pageParam, limit: PAGE },
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const pages = query.data?.pages;
  const skills = useMemo(() => inOrder(pages?.flatMap((page) => page.items) ?? []), [pages]);
  return {
    skills,
    isLoading: query.isPending,
    error: query.error,
    retry: () => void query.refetch(),
    hasMore: query.hasNextPage,
    more: () => void query.fetchNextPage(),
  };
}
