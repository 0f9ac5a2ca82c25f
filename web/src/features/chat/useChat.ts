import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useFollowed } from "@/state/useFollowed";
import { type Chat, chatKey, type ChatTurn, type Place, readChat, TURNS_FIRST, TURNS_MAX } from "./api";

interface ShownChat {
  readonly chat: Chat | undefined;
  /** Oldest first, with the earlier ones that were asked for. */
  readonly turns: readonly ChatTurn[];
  readonly error: Error | null;
  readonly refetch: () => void;
  /** Shows more of what came before; null if there is no more. */
  readonly earlier: (() => void) | null;
  readonly isLoadingEarlier: boolean;
}

/** A branch of a chat, kept up to date by its events. */
export function useChat(place: Place): ShownChat {
  const [limit, setLimit] = useState(TURNS_FIRST);
  const [wantsOlder, setWantsOlder] = useState(false);
  const newest = useFollowed({
    queryKey: [...chatKey(place), limit],
    queryFn: (signal) => readChat(place, { limit }, signal),
    follows: `session:${place.chat}`,
  });
  const before = newest.data?.before ?? null;
  const older = useInfiniteQuery({
    queryKey: ["chat-older", place.chat, place.branch, before],
    enabled: wantsOlder && before !== null,
    initialPageParam: before ?? 0,
    queryFn: ({ pageParam, signal }) => readChat(place, { limit: TURNS_MAX, before: pageParam }, signal),
    getNextPageParam: (page) => page.before,
  });
  const pages = before === null || !wantsOlder ? [] : (older.data?.pages ?? []);
  const hasMore = before !== null && (!wantsOlder || older.hasNextPage);
  const earlier = () => {
    if (limit < TURNS_MAX) setLimit(TURNS_MAX);
    else if (wantsOlder) void older.fetchNextPage();
    else setWantsOlder(true);
  };
  return {
    chat: newest.data,
    turns: [...pages.toReversed().flatMap((page) => page.turns), ...(newest.data?.turns ?? [])],
    error: newest.error,
    refetch: newest.refetch,
    earlier: hasMore ? earlier : null,
    isLoadingEarlier: older.isFetching,
  };
}
