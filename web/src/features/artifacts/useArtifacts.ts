import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api } from "@/client/http";
import type { Shape } from "@/client/types";
import type { Artifact } from "@/projection/graph";
import { liveArtifacts } from "@/projection/vitals";
import { useProjection } from "@/state/log";
import { useUi } from "@/state/ui";
import { useDebounced } from "@/ui/useDebounced";
import { ALL, type Filter, type Found, matches } from "./filter";

/** Of a search in contents; the server gives no more at once. */
export const HITS_MAX = 500;

export interface Artifacts {
  readonly all: readonly Artifact[];
  readonly found: readonly Found[];
  /** The search in contents: the list by name is there at once and does not wait for it. */
  readonly search: {
    readonly isBusy: boolean;
    readonly error: unknown;
    readonly isCut: boolean;
    readonly retry: () => void;
  };
}

const NONE: ReadonlySet<string> = new Set();

/** What the log knows of artifacts, and what the server finds in their contents (of now alone). */
export function useArtifacts(filter: Filter): Artifacts {
  const all = useProjection(liveArtifacts);
  const isPast = useUi((state) => state.travel !== null);
  const words = useDebounced(filter.words.trim());
  const kind = filter.kind === "" || filter.kind === ALL ? null : filter.kind;
  const query = useQuery({
    queryKey: ["artifacts", "search", words, kind, filter.owner],
    queryFn: ({ signal }) =>
      api.get<Shape<"ArtifactsPage">>(
        "/artifacts",
        { q: words, kind, owner: filter.owner || null, limit: HITS_MAX },
        signal,
      ),
    enabled: words !== "" && !isPast,
  });
  const hits = query.data?.items;
  const inContent = useMemo(
    () => (hits === undefined || isPast ? NONE : new Set(hits.map((one) => one.id))),
    [hits, isPast],
  );
  const found = useMemo(() => matches(all, filter, inContent), [all, filter, inContent]);
  return {
    all,
    found,
    search: {
      isBusy: query.isFetching,
      error: query.error,
      isCut: (hits?.length ?? 0) >= HITS_MAX,
      retry: () => void query.refetch(),
    },
  };
}
