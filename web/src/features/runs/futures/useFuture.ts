import { useQuery } from "@tanstack/react-query";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import type { Run } from "@/projection/graph";
import { costQuery, runQuery, stepsQuery } from "../runQueries";
import { type Future, futureOf } from "./future";

/** What came of one run, asked for again as it goes on; undefined until all of it is there. */
export function useFuture(run: Run): {
  readonly future: Future | undefined;
  readonly shown: Shape<"RunShown"> | undefined;
  readonly error: Error | null;
} {
  const isTask = run.loop === "task";
  const shown = useQuery(runQuery(run));
  const steps = useQuery(stepsQuery(run));
  const cost = useQuery(costQuery(run));
  const task = useQuery({
    queryKey: ["tasks", run.id, "future", run.lastPosition],
    queryFn: ({ signal }) => api.get<Shape<"TaskShown">>(path("tasks", run.id), undefined, signal),
    enabled: isTask,
    placeholderData: (before) => before,
  });
  const error = shown.error ?? steps.error ?? cost.error ?? task.error;
  const isThere = shown.data && steps.data && cost.data && (!isTask || task.data);
  const future = isThere
    ? futureOf({
        run: shown.data,
        steps: steps.data.items,
        costs: cost.data.steps,
        task: task.data ?? null,
      })
    : undefined;
  return { future, shown: shown.data, error };
}
