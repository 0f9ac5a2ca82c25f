import { useQuery } from "@tanstack/react-query";
import { api } from "./http";
import { queryClient } from "./queries";
import type { Shape } from "./types";

export type ServerShown = Shape<"ServerShown">;

/** It is the same until the server starts anew, except for the users of another tenant. */
const asked = {
  queryKey: ["server"],
  queryFn: ({ signal }: { readonly signal: AbortSignal }) => api.get<ServerShown>("/server", {}, signal),
  staleTime: 60_000,
} as const;

/** How the server was started. */
export function useServer() {
  return useQuery(asked);
}

/** The same outside components. Errors: `ApiError`. */
export function fetchServer(): Promise<ServerShown> {
  return queryClient.fetchQuery(asked);
}
