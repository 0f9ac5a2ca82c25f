import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, type Page } from "@/client/http";
import { isWireEvent, type WireEvent } from "@/projection/event";
import type { Graph } from "@/projection/graph";
import { eventLog, useEvents, useGraph } from "./log";

const PAGE_EVENTS = 1000;
/** Of one run; a longer history is shown from its end only. */
const PAGES_MAX = 20;

/** A run and those that it was forked from, whose events its history begins with. */
function withOrigins(graph: Graph, ids: readonly string[]): readonly string[] {
  const found = new Set<string>();
  for (const id of ids)
    for (let at = id; at !== "" && !found.has(at); at = graph.runs.get(at)?.origin ?? "") found.add(at);
  return [...found];
}

async function readBefore(id: string, earliest: number, signal: AbortSignal): Promise<readonly WireEvent[]> {
  const found: WireEvent[] = [];
  let after: number | null = 0;
  for (let n = 0; n < PAGES_MAX && after !== null && after < earliest; n += 1) {
    const wanted = { prefix: id, after, limit: PAGE_EVENTS };
    const page: Page<unknown> = await api.get<Page<unknown>>("/events", wanted, signal);
    found.push(...page.items.filter(isWireEvent));
    after = page.next === null ? null : Number(page.next);
  }
  return found.filter((event) => event.stream === `run:${id}` && event.position <= earliest);
}

/**
 * Events that hold the whole histories of some runs, up to the moment that is shown: where they begin before the
 * events of this page, the rest is asked of the server.
 */
export function useRunHistory(...ids: readonly string[]): readonly WireEvent[] {
  const events = useEvents();
  const graph = useGraph();
  const { earliest } = eventLog;
  const wanted = withOrigins(graph, ids);
  const { data } = useQuery({
    queryKey: ["run-history", earliest, ...wanted],
    queryFn: async ({ signal }) => {
      const parts = await Promise.all(wanted.map((id) => readBefore(id, earliest, signal)));
      return parts.flat().sort((a, b) => a.position - b.position);
    },
    enabled: earliest > 0,
    staleTime: Infinity,
  });
  return useMemo(() => {
    if (data === undefined || data.length === 0) return events;
    return [...data.filter((event) => event.position <= graph.position), ...events];
  }, [data, events, graph.position]);
}
