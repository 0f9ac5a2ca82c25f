import { useState } from "react";
import { mayFork } from "@/commands/fork";
import type { Run } from "@/projection/graph";
import { ActionButton } from "@/shell/ActionButton";
import { useUi } from "@/state/ui";
import { ForkDialog } from "./ForkDialog";

interface ForkStepProps {
  readonly run: Run;
  readonly step: string;
  /** The first event of the step: the fork shares what came before. */
  readonly seq: number;
}

/** Takes another way from a step on: the fork does that step anew, with one thing changed. */
export function ForkStep({ run, step, seq }: ForkStepProps) {
  const ui = useUi();
  const [isAsking, setAsking] = useState(false);
  return (
    <div className="flex justify-end border-b border-line px-4 py-1">
      <ActionButton
        label="Fork from this step"
        size="small"
        may={mayFork({ ui })}
        hint={`A new run shares all before ${step} and does it anew.`}
        onClick={() => setAsking(true)}
      />
      {isAsking && <ForkDialog run={run} after={Math.max(1, seq - 1)} onClose={() => setAsking(false)} />}
    </div>
  );
}
