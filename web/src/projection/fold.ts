import { Draft } from "./draft";
import { integer, MAIN_SPACE, text, type WireEvent } from "./event";
import { foldArtifact } from "./foldArtifacts";
import { foldRun } from "./foldRuns";
import { foldTask } from "./foldTasks";
import { EMPTY_GRAPH, type Graph } from "./graph";

/**
 * The graph after some more events. Pure: the same events give the same graph in whatever batches they
 * come. Events at or below `graph.position` are skipped, so a repeated delivery changes nothing.
 */
export function fold(graph: Graph, events: Iterable<WireEvent>): Graph {
  const draft = new Draft(graph);
  let position = graph.position;
  for (const event of events) {
    if (event.position <= position) continue;
    position = event.position;
    draft.advance(event);
    foldLimits(draft, event);
    if (event.stream.startsWith("run:")) foldRun(draft, event);
    // Artifacts of worlds are shown with their world: their ids mean something there alone.
    if (event.space !== MAIN_SPACE) continue;
    foldArtifact(draft, event);
    foldTask(draft, event);
  }
  return position === graph.position ? graph : draft.finish();
}

export function foldAll(events: Iterable<WireEvent>): Graph {
  return fold(EMPTY_GRAPH, events);
}

function foldLimits(draft: Draft, event: WireEvent): void {
  if (event.kind === "limit.set" && text(event, "unit") === "usd") {
    setCap(draft, text(event, "scope"), event.data["cap"] == null ? null : integer(event, "cap"));
  } else if (event.kind === "tenant.created" || event.kind === "tenant.updated") {
    setCap(draft, "tenant", event.data["budget"] == null ? null : integer(event, "budget"));
  }
}

function setCap(draft: Draft, scope: string, cap: number | null): void {
  const caps = new Map(draft.costs.caps);
  if (cap === null) caps.delete(scope);
  else caps.set(scope, cap);
  draft.setCosts({ caps });
}
