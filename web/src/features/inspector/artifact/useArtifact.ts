import type { UseQueryResult } from "@tanstack/react-query";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { useGraph } from "@/state/log";
import { useUi } from "@/state/ui";
import { artifactRevision } from "../revisions";
import { useInspector } from "../state";
import { useDetail } from "../useDetail";

interface ArtifactSeen {
  readonly query: UseQueryResult<Shape<"ArtifactShown">>;
  readonly key: readonly unknown[];
  /** The version that was asked for; null is the newest. */
  readonly version: number | null;
  readonly quote: string;
}

/** An artifact in the version that was cited, in that of the moment one looks at, or in its newest. */
export function useArtifact(id: string): ArtifactSeen {
  const graph = useGraph();
  const travel = useUi((state) => state.travel);
  const wanted = useInspector((state) => state.wanted);
  const isMine = wanted?.id === id;
  const then = travel === null ? null : (graph.artifacts.get(id)?.version ?? null);
  const version = (isMine ? wanted.version : null) ?? then;
  const key = ["artifact", id, version];
  const query = useDetail<Shape<"ArtifactShown">>(
    key,
    (signal) => api.get(path("artifacts", id), { version }, signal),
    artifactRevision(graph, id),
  );
  return { query, key, version, quote: isMine ? wanted.quote : "" };
}
