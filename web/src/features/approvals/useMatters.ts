import { useQuery } from "@tanstack/react-query";
import { useMemo, useSyncExternalStore } from "react";
import { api, type Page } from "@/client/http";
import { eventLog } from "@/state/log";
import { type Asked, type Matter, mattersOf } from "./inbox";

/** What waits for a person now, also while one looks at the past. */
export function useMatters(): readonly Matter[] {
  const graph = useSyncExternalStore(eventLog.subscribe, eventLog.snapshot);
  const open = useMemo(() => mattersOf(graph, []), [graph]);
  const ids = open.filter((one) => one.kind !== "outcome").map((one) => one.id);
  const { data } = useQuery({
    queryKey: ["approvals", ids.join(" ")],
    queryFn: ({ signal }) => api.get<Page<Asked>>("/approvals", undefined, signal),
    enabled: ids.length > 0,
    placeholderData: (before) => before,
  });
  return useMemo(() => (data === undefined ? open : mattersOf(graph, data.items)), [graph, data, open]);
}
