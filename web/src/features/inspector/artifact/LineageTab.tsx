import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { useEvents, useGraph } from "@/state/log";
import { clock } from "@/ui/time";
import { Loaded } from "../parts/Loaded";
import { Part } from "../parts/Part";
import { RefButton } from "../parts/RefButton";
import { artifactRevision } from "../revisions";
import { useDetail } from "../useDetail";
import { Refs } from "./Refs";
import { usesOf } from "./use";

/** What it came from, what came from it, and which prompts contained it. */
export function LineageTab({ id }: { readonly id: string }) {
  const graph = useGraph();
  const query = useDetail<Shape<"ArtifactLineage">>(
    ["artifact-lineage", id],
    (signal) => api.get(`${path("artifacts", id)}/lineage`, undefined, signal),
    `${artifactRevision(graph, id)} ${graph.artifacts.size}`,
  );
  const uses = usesOf(useEvents(), id);
  return (
    <>
      <Loaded query={query} what="the lineage">
        {(lineage) => (
          <>
            <Part title="Made from">
              <Refs refs={lineage.sources} empty="It names no sources." />
            </Part>
            <Part title="What was made from it">
              <Refs refs={lineage.derived} empty="Nothing so far." />
            </Part>
          </>
        )}
      </Loaded>
      <Part title="Prompts that contained it" aside={uses.length === 0 ? "none" : String(uses.length)}>
        {uses.length === 0 ? (
          <p className="text-ink-2">No prompt that is known here has contained it.</p>
        ) : (
          <ul className="flex flex-col gap-1">
            {uses.map((use, index) => (
              <li key={index} className="flex justify-between gap-2">
                <span className="min-w-0">
                  <RefButton kind="run" to={use.runId} label={`${use.runId}, ${use.step}`} />
                  <span className="block text-11 text-ink-3">{use.ref}</span>
                </span>
                <span className="num text-ink-3">{clock(use.atUs)}</span>
              </li>
            ))}
          </ul>
        )}
      </Part>
    </>
  );
}
