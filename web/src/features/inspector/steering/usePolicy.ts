import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api } from "@/client/http";
import type { Shape } from "@/client/types";
import type { Safety } from "./amounts";
import type { Place } from "./place";

/** What the server would make of a place of the puck; undefined until it has said so once. */
export function usePolicy(place: Place | null, safety: Safety): Shape<"Policy"> | undefined {
  const { data } = useQuery({
    queryKey: ["policy", place?.x ?? null, place?.y ?? null, safety],
    queryFn: ({ signal }) =>
      api.get<Shape<"Policy">>("/steering/preview", { x: place?.x, y: place?.y, safety }, signal),
    enabled: place !== null,
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });
  return place === null ? undefined : data;
}
