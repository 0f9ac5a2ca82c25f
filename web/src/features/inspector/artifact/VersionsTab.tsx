import { api, path } from "@/client/http";
import type { Page } from "@/client/http";
import type { Shape } from "@/client/types";
import { useGraph } from "@/state/log";
import { cx } from "@/ui/cx";
import { dayAndTime } from "@/ui/time";
import { Loaded } from "../parts/Loaded";
import { Part } from "../parts/Part";
import { artifactRevision } from "../revisions";
import { useInspector } from "../state";
import { useDetail } from "../useDetail";
import { sizeWords } from "./forms";
import { Diff } from "./Diff";

interface VersionsTabProps {
  readonly id: string;
  readonly version: number;
}

/** Who wrote what and when, and what a version changed. */
export function VersionsTab({ id, version }: VersionsTabProps) {
  const revision = artifactRevision(useGraph(), id);
  const query = useDetail<Page<Shape<"ArtifactVersion">>>(
    ["artifact-versions", id],
    (signal) => api.get(`${path("artifacts", id)}/versions`, { limit: 500 }, signal),
    revision,
  );
  return (
    <>
      <Part title="Versions, newest first">
        <Loaded query={query} what="the versions">
          {({ items, next }) => (
            <>
              <ul className="flex flex-col">
                {[...items].reverse().map((one) => (
                  <li key={one.version}>
                    <button
                      type="button"
                      aria-current={one.version === version || undefined}
                      disabled={one.pruned}
                      onClick={() =>
                        useInspector.setState({ wanted: { id, version: one.version, quote: "" } })
                      }
                      className={cx(
                        "flex w-full flex-wrap justify-between gap-x-3 rounded-control px-2 py-1 text-left hover:bg-panel-2 disabled:opacity-60",
                        one.version === version && "bg-panel-2 font-semibold",
                      )}
                    >
                      <span className="num">v{one.version}</span>
                      <span className="min-w-0 flex-1 truncate">{one.writer}</span>
                      <span className="text-ink-2">
                        {one.pruned ? "pruned: no longer readable" : sizeWords(one.size_bytes)}
                      </span>
                      <span className="num text-ink-3">{dayAndTime(one.written_us)}</span>
                    </button>
                  </li>
                ))}
              </ul>
              {next != null && <p className="text-12 text-ink-2">The first {items.length} are shown.</p>}
            </>
          )}
        </Loaded>
      </Part>
      {version > 1 && <Diff key={version} id={id} after={version} />}
    </>
  );
}
