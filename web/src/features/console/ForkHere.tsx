import { shortName } from "@/projection/event";
import { CommandButton } from "@/shell/CommandButton";
import { useGraph } from "@/state/log";
import { useUi } from "@/state/ui";
import { Select } from "@/ui/Select";
import { setConsole, useConsole } from "./consoleStore";
import { forkChoices } from "./forkTarget";

const CHOICES_MAX = 200;

/** The part of an id that tells one run from the others first. */
function nameOf(runId: string): string {
  const short = shortName(runId);
  return short === runId ? runId : `${short} of ${runId.slice(0, -short.length - 1)}`;
}

/** Branches a run off at the moment that is shown, and says what that will do. */
export function ForkHere() {
  const ui = useUi();
  const graph = useGraph();
  const console = useConsole();
  const choices = forkChoices({ ui, graph }, console);
  const chosen = choices[0];
  return (
    <div className="flex flex-wrap items-center gap-2">
      {chosen !== undefined && (
        <Select
          label="Run to fork"
          bare
          className="max-w-60 min-w-0"
          value={chosen.runId}
          options={choices
            .slice(0, CHOICES_MAX)
            .map((point) => ({ value: point.runId, label: nameOf(point.runId) }))}
          onChange={(forkOf) => setConsole({ forkOf })}
        />
      )}
      <CommandButton id="run.fork_here" variant="primary" />
      {chosen !== undefined && (
        <p className="min-w-60 flex-1 text-12 text-ink-2">
          A new run shares that history up to event <span className="num">{chosen.seq}</span> (
          {chosen.step || chosen.kind}) and goes its own way from there. Nothing of the past changes, and what
          was done outside is not done again: it asks before any new side effect.
        </p>
      )}
    </div>
  );
}
