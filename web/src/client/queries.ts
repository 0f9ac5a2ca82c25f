import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "./http";

/** The one cache of what the server told in detail. What it lists stays in the projection. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: false,
      // Only an answer that may be another one next time is asked for again.
      retry: (count, error) =>
        count < 2 && error instanceof ApiError && (error.status === 0 || error.status >= 500),
    },
    mutations: { retry: false },
  },
});
