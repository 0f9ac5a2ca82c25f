import type { UseQueryResult } from "@tanstack/react-query";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { useGraph } from "@/state/log";
import { membraneRevision } from "../revisions";
import { useDetail } from "../useDetail";

/** One membrane with its budget and the titles of what it shares. */
export function useMembrane(id: string): UseQueryResult<Shape<"MembraneShown">> {
  const revision = membraneRevision(useGraph(), id);
  return useDetail(["membrane", id], (signal) => api.get(path("membranes", id), undefined, signal), revision);
}
