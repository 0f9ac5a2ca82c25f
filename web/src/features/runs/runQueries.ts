import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import type { Run } from "@/projection/graph";

/** Changes whenever details of the run may have changed. */
function stateOf(run: Run): string {
  return `${run.status} ${run.cycles} ${run.doing} ${run.spend.calls}`;
}

/** How often a run at work is looked at again for what no event tells. */
const WAITS_MS = 5_000;

export function runQuery(run: Run) {
  return queryOptions({
    queryKey: ["runs", run.id, "shown", stateOf(run)],
    queryFn: ({ signal }) => api.get<Shape<"RunShown">>(path("runs", run.id), {}, signal),
    placeholderData: keepPreviousData,
    // That a call waits for its rate is no event.
    refetchInterval: run.status === "running" ? WAITS_MS : false,
  });
}

/** The newest steps of a run, or those before an event: a run of weeks has more than one can look at. */
export function stepsQuery(run: Run, before: number | null = null) {
  return queryOptions({
    queryKey: ["runs", run.id, "steps", before, stateOf(run)],
    queryFn: ({ signal }) =>
      api.get<Shape<"StepPage">>(`${path("runs", run.id)}/steps`, { last: true, before }, signal),
    placeholderData: keepPreviousData,
  });
}

export function costQuery(run: Run) {
  return queryOptions({
    queryKey: ["runs", run.id, "cost", stateOf(run)],
    queryFn: ({ signal }) => api.get<Shape<"Cost">>(`${path("runs", run.id)}/cost`, {}, signal),
    placeholderData: keepPreviousData,
  });
}
