import { useFollowed } from "@/state/useFollowed";
import { type Place, readFeed } from "./api";

/** Earlier values of one artifact of a chat, newest first; read when they are wanted. */
export function useFeed(place: Place, tag: string, enabled: boolean) {
  return useFollowed({
    queryKey: ["chat-feed", place.chat, place.branch, tag],
    queryFn: (signal) => readFeed(place, tag, signal),
    follows: `session:${place.chat}`,
    enabled,
  });
}
