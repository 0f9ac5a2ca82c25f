import type { Graph } from "@/projection/graph";
import { useProjection } from "@/state/log";
import { useUi } from "@/state/ui";

function atUs(graph: Graph): number {
  return graph.atUs;
}

/** The time that one has travelled to, in microseconds; null is now. */
export function useAsOf(): number | null {
  const at = useProjection(atUs);
  return useUi((state) => state.travel) === null ? null : at;
}
