import type { Edge, Graph } from "@/projection/graph";

/** How long an edge stays live after an event went over it. */
export const LIVE_MS = 2500;

/** Edges that carry something at this very moment: what a prompt holds while its model is asked. */
export function carrying(graph: Graph): readonly string[] {
  const found: string[] = [];
  for (const edge of graph.edges.values()) if (isInFlight(graph, edge)) found.push(edge.id);
  return found;
}

function isInFlight(graph: Graph, edge: Edge): boolean {
  if (edge.kind !== "read") return false;
  const run = graph.runs.get(graph.agents.get(edge.target)?.runId ?? "");
  // The request follows the prompt that was assembled from it within one batch.
  return (
    run !== undefined &&
    run.status === "running" &&
    run.doing.startsWith("model ") &&
    edge.lastPosition >= run.lastPosition - 1
  );
}

/** Edges that events after `position` went over. */
export function crossedSince(graph: Graph, position: number): readonly string[] {
  const found: string[] = [];
  for (const edge of graph.edges.values()) if (edge.lastPosition > position) found.push(edge.id);
  return found;
}

/** In the past: the edge that the shown event itself went over. */
export function crossedAt(graph: Graph): readonly string[] {
  return crossedSince(graph, graph.position - 1);
}
