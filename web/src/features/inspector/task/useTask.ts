import type { UseQueryResult } from "@tanstack/react-query";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { useGraph } from "@/state/log";
import { taskRevision } from "../revisions";
import { useDetail } from "../useDetail";

/** One task with its definition and the details of its iterations. */
export function useTask(id: string): UseQueryResult<Shape<"TaskShown">> {
  const revision = taskRevision(useGraph(), id);
  return useDetail(["task", id], (signal) => api.get(path("tasks", id), undefined, signal), revision);
}
