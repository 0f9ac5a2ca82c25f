import { api, type Page } from "@/client/http";
import { useFollowed } from "@/state/useFollowed";
import type { ChatLine } from "./api";

const PAGE = 500;
const PAGES_MAX = 10;

async function readChats(signal: AbortSignal): Promise<readonly ChatLine[]> {
  const found: ChatLine[] = [];
  let after: string | number | null = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer: Page<ChatLine> = await api.get<Page<ChatLine>>("/sessions", { after, limit: PAGE }, signal);
    found.push(...answer.items);
    after = answer.next;
    if (after === null) break;
  }
  return found.toSorted((a, b) => b.changed_us - a.changed_us);
}

/** Chats, those that were used last first. */
export function useChats() {
  return useFollowed({ queryKey: ["chats"], queryFn: readChats, follows: "sessions" });
}
