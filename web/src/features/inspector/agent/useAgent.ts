import type { UseQueryResult } from "@tanstack/react-query";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { useGraph } from "@/state/log";
import { agentRevision } from "../revisions";
import { useDetail } from "../useDetail";

/** One agent with its tools, memory and budget. */
export function useAgent(id: string): UseQueryResult<Shape<"AgentShown">> {
  const revision = agentRevision(useGraph(), id);
  return useDetail(["agent", id], (signal) => api.get(path("agents", id), undefined, signal), revision);
}
