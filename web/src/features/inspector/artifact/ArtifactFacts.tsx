import type { Shape } from "@/client/types";
import type { SelectionKind } from "@/state/ui";
import { Button } from "@/ui/Button";
import { RefButton } from "../parts/RefButton";
import { useInspector } from "../state";
import { sizeWords } from "./forms";

interface ArtifactFactsProps {
  readonly shown: Shape<"ArtifactShown">;
  readonly newest: number;
  readonly download: string;
}

const OF_THEIR_OWN: Readonly<Record<string, SelectionKind>> = {
  agent: "agent",
  task: "task",
  membrane: "membrane",
};

/** Kind, version, size and owner in a line, and the way to its bytes. */
export function ArtifactFacts({ shown, newest, download }: ArtifactFactsProps) {
  const other = OF_THEIR_OWN[shown.kind];
  const madeBy = shown.provenance.run_id;
  return (
    <div className="flex flex-col gap-1.5 text-12 text-ink-2">
      <p className="flex flex-wrap items-center gap-x-2">
        <span>{shown.kind}</span>
        <span className="num">v{shown.version}</span>
        <span>{sizeWords(shown.size_bytes)}</span>
        <span className="break-all">owned by {shown.owner}</span>
      </p>
      {shown.version < newest && (
        <p role="status" className="flex items-center gap-2 text-warn">
          v{newest} is newer.
          <Button
            size="small"
            onClick={() => useInspector.setState({ wanted: { id: shown.id, version: null, quote: "" } })}
          >
            Show the newest
          </Button>
        </p>
      )}
      <p className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <a href={download} download className="text-accent underline">
          Download
        </a>
        {other !== undefined && <RefButton kind={other} to={shown.id} label={`Open as ${shown.kind}`} />}
        {madeBy != null && (
          <span>
            made in{" "}
            <RefButton
              kind="run"
              to={madeBy}
              label={`${madeBy}${shown.provenance.step ? `, ${shown.provenance.step}` : ""}`}
            />
          </span>
        )}
      </p>
    </div>
  );
}
