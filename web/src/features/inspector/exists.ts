import type { Graph } from "@/projection/graph";
import type { Selection } from "@/state/ui";

/** Whether events up to this moment tell of a thing. */
export function exists(graph: Graph, { kind, id }: Selection): boolean {
  const kinds = {
    agent: graph.agents,
    task: graph.tasks,
    artifact: graph.artifacts,
    membrane: graph.membranes,
    run: graph.runs,
    mission: graph.runs,
  };
  return kinds[kind].has(id);
}
