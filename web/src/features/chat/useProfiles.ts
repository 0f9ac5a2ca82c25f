import { useQuery } from "@tanstack/react-query";
import { api } from "@/client/http";
import type { Shape } from "@/client/types";

/** The shipped profiles and those that are stored. */
export function useProfiles() {
  return useQuery({
    queryKey: ["profiles"],
    queryFn: ({ signal }) => api.get<Shape<"ProfilesPage">>("/profiles", { limit: 500 }, signal),
  });
}
