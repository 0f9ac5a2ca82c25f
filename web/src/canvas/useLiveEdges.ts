import { useEffect, useMemo, useRef, useState } from "react";
import type { Graph } from "@/projection/graph";
import { useUi } from "@/state/ui";
import { carrying, crossedAt, crossedSince, LIVE_MS } from "./live";

/** Until when each edge is live, in this page's milliseconds. */
type Until = ReadonlyMap<string, number>;

const NONE: Until = new Map();

/** Ids of the edges that carry something now. What was stored before the page began is not "now". */
export function useLiveEdges(graph: Graph): ReadonlySet<string> {
  const isLive = useUi((state) => state.live === "live");
  const isPast = useUi((state) => state.travel !== null);
  const seen = useRef(-1);
  const [recent, setRecent] = useState(NONE);

  useEffect(() => {
    const since = isLive && !isPast ? seen.current : -1;
    seen.current = isLive && !isPast ? graph.position : -1;
    if (since < 0 || since >= graph.position) return;
    const crossed = crossedSince(graph, since);
    const until = performance.now() + LIVE_MS;
    if (crossed.length > 0)
      setRecent((before) => new Map([...before, ...crossed.map((id) => [id, until] as const)]));
  }, [graph, isLive, isPast]);

  useEffect(() => {
    if (recent.size === 0) return undefined;
    const wait = Math.max(50, Math.min(...recent.values()) - performance.now());
    const timer = setTimeout(() => {
      const now = performance.now();
      setRecent((before) => new Map([...before].filter(([, until]) => until > now)));
    }, wait);
    return () => clearTimeout(timer);
  }, [recent]);

  return useMemo(() => {
    if (isPast) return new Set(crossedAt(graph));
    return isLive ? new Set([...recent.keys(), ...carrying(graph)]) : new Set();
  }, [graph, recent, isLive, isPast]);
}
