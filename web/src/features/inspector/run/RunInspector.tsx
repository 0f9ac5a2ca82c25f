import { shortName } from "@/projection/event";
import { isFinal } from "@/projection/graph";
import { runWords } from "@/projection/status";
import { TONE_OF } from "@/shell/meaning";
import { useGraph } from "@/state/log";
import { Status } from "@/ui/Badge";
import { EmptyState } from "@/ui/EmptyState";
import { RunsIcon } from "@/ui/icons/icons";
import { Head } from "../parts/Head";
import { Part } from "../parts/Part";
import { Belonging } from "./Belonging";
import { RunControls } from "./RunControls";
import { RunFacts } from "./RunFacts";

/** A run, or a goal, which is one: where it stands, what it costs, and what belongs to it. */
export function RunInspector({ id }: { readonly id: string }) {
  const graph = useGraph();
  const run = graph.runs.get(id);
  if (run === undefined) {
    return (
      <EmptyState title="Not known here">
        There is no run {id} at the moment that you look at. Select another one, or go back to now.
      </EmptyState>
    );
  }
  const said = runWords(run.status);
  return (
    <>
      <Head
        icon={<RunsIcon />}
        name={shortName(id)}
        id={id}
        status={<Status tone={TONE_OF[said.meaning]}>{said.word}</Status>}
      >
        {!isFinal(run.status) && <RunControls run={run} />}
      </Head>
      <div className="border-t border-line">
        {run.goal !== "" && (
          <Part title="Goal">
            <p className="break-words">{run.goal}</p>
          </Part>
        )}
        <RunFacts run={run} />
        <Belonging graph={graph} id={id} />
      </div>
    </>
  );
}
