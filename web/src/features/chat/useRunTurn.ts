import { useQuery } from "@tanstack/react-query";
import { api, type Page, path } from "@/client/http";
import { foldTurn, isRunEvent, NEW_TURN, type Turn } from "@/projection/turn";
import type { Place } from "./api";

const PAGE = 500;
const PAGES_MAX = 20;

/** All stored events of a run, folded. */
async function readTurn({ chat, branch }: Place, run: string, signal: AbortSignal): Promise<Turn> {
  let turn = NEW_TURN;
  for (let page = 0, after = 0; page < PAGES_MAX; page += 1) {
    const params = { run_id: run, branch, after, limit: PAGE };
    const answer = await api.get<Page<unknown>>(`${path("sessions", chat)}/events`, params, signal);
    turn = foldTurn(turn, answer.items.filter(isRunEvent));
    const next = answer.next === null ? null : Number(answer.next);
    if (next === null || next <= after || answer.items.length === 0) break;
    after = next;
  }
  return turn;
}

/** What became of the operations of a run that is over. */
export function useRunTurn(place: Place, run: string, enabled: boolean) {
  return useQuery({
    queryKey: ["chat-run", place.chat, run],
    enabled: enabled && run !== "",
    staleTime: 60_000,
    queryFn: ({ signal }) => readTurn(place, run, signal),
  });
}
