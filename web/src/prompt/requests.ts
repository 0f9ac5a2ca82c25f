import { queryOptions, skipToken } from "@tanstack/react-query";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";

export interface StepName {
  readonly runId: string;
  readonly step: string;
}

// What was sent never changes, so it is asked for once.

export function manifestQuery({ runId, step }: StepName) {
  return queryOptions({
    queryKey: ["manifest", runId, step],
    queryFn: ({ signal }) => api.get<Shape<"Manifest">>(`${path("runs", runId)}/manifest`, { step }, signal),
    staleTime: Infinity,
  });
}

/** The exact text that was sent. */
export function promptQuery({ runId, step }: StepName) {
  return queryOptions({
    queryKey: ["prompt", runId, step],
    queryFn: ({ signal }) => api.text(`${path("runs", runId)}/prompt`, { step }, signal),
    staleTime: Infinity,
  });
}

export function promptDiffQuery({ runId, step }: StepName, previous: string) {
  return queryOptions({
    queryKey: ["promptDiff", runId, previous, step],
    queryFn:
      previous === ""
        ? skipToken
        : ({ signal }) =>
            api.get<Shape<"PromptDiff">>(
              `${path("runs", runId)}/prompt/diff`,
              { a: previous, b: step },
              signal,
            ),
    staleTime: Infinity,
  });
}
