import { useState } from "react";
import type { Run } from "@/projection/graph";
import { CommandButton } from "@/shell/CommandButton";
import { useMayAct } from "@/shell/useMayAct";
import { ActionButton } from "@/shell/ActionButton";
import { PauseIcon, PlayIcon, StepIcon, StopIcon } from "@/ui/icons/icons";
import { HeldByGoal } from "./HeldByGoal";
import { NoteForm } from "./NoteForm";

interface AgentControlsProps {
  readonly agent: string;
  /** Its runs that have not ended. */
  readonly runs: readonly Run[];
}

/** Pause, resume, step, stop and a note, for one agent; without open runs there is nothing to steer. */
export function AgentControls({ agent, runs }: AgentControlsProps) {
  const [isWriting, setWriting] = useState(false);
  const may = useMayAct();
  if (runs.length === 0) return null;
  const isPaused = runs.every((run) => run.status === "paused");
  return (
    <>
      <div role="group" aria-label="Selected agent" className="flex flex-wrap gap-2">
        {isPaused ? (
          <CommandButton id="agent.resume" label="Resume" icon={<PlayIcon size={12} />} />
        ) : (
          <CommandButton id="agent.pause" label="Pause" icon={<PauseIcon size={12} />} />
        )}
        <CommandButton id="agent.step" label="Step" icon={<StepIcon size={12} />} />
        <CommandButton id="agent.stop" label="Stop" variant="danger" icon={<StopIcon size={10} />} />
        <ActionButton
          label="Note"
          aria-expanded={isWriting}
          may={may}
          onClick={() => setWriting(!isWriting)}
        />
      </div>
      <HeldByGoal runs={runs} />
      {isWriting && may.ok && <NoteForm agent={agent} onDone={() => setWriting(false)} />}
    </>
  );
}
