import { useState } from "react";
import { address, path } from "@/client/http";
import type { Run } from "@/projection/graph";
import { ActionButton } from "@/shell/ActionButton";
import { useUi } from "@/state/ui";
import { ForkDialog } from "./ForkDialog";
import { LimitDialog } from "./LimitDialog";
import { NoteDialog } from "./NoteDialog";
import { ReconcileDialog } from "./ReconcileDialog";
import { UndoDialog } from "./UndoDialog";
import { useVerb } from "./useVerb";
import { allowed, LABELS, type Verb, VERBS } from "./verbs";

const ASKS: ReadonlySet<Verb> = new Set(["inject", "limit", "reconcile", "cancel", "compensate", "fork"]);
/** Those that are of use only now and then stand there only then. */
const SELDOM: ReadonlySet<Verb> = new Set(["retry", "reconcile", "compensate"]);

interface RunVerbsProps {
  readonly run: Run;
  /** Whether there are calls of which nobody knows what they did: some outlive their run. */
  readonly hasLeftCalls: boolean;
}

/** Everything that can be done to a run. What cannot be done now says why. */
export function RunVerbs({ run, hasLeftCalls }: RunVerbsProps) {
  const ui = useUi();
  const [asking, setAsking] = useState<Verb | null>(null);
  const verb = useVerb(run.id);
  const close = () => setAsking(null);
  const press = (which: Verb) => {
    if (ASKS.has(which)) setAsking(which);
    else if (which !== "fork" && which !== "compensate") verb.mutate({ verb: which });
  };
  return (
    <div role="group" aria-label="What to do with the run" className="flex flex-wrap gap-1.5">
      {VERBS.map((which) => {
        const enabled = allowed(which, run, { ui }, hasLeftCalls);
        if (!enabled.ok && SELDOM.has(which)) return null;
        const isBusy = verb.isPending && verb.variables.verb === which;
        return (
          <ActionButton
            key={which}
            label={LABELS[which]}
            size="small"
            variant={which === "cancel" || which === "stop" ? "danger" : "plain"}
            busy={isBusy}
            may={enabled}
            onClick={() => press(which)}
          />
        );
      })}
      <a
        href={address(`${path("runs", run.id)}/export`)}
        download={`${run.id.replaceAll("/", "-")}.artelier`}
        className="inline-flex h-6.5 items-center rounded-control border border-line bg-panel-2 px-2 text-12 font-medium hover:border-edge"
      >
        Export
      </a>
      {asking === "inject" && <NoteDialog run={run} verb="inject" onClose={close} />}
      {asking === "cancel" && <NoteDialog run={run} verb="cancel" onClose={close} />}
      {asking === "limit" && <LimitDialog run={run} onClose={close} />}
      {asking === "reconcile" && <ReconcileDialog run={run} onClose={close} />}
      {asking === "compensate" && (
        <UndoDialog run={run} onSettle={() => setAsking("reconcile")} onClose={close} />
      )}
      {asking === "fork" && <ForkDialog run={run} onClose={close} />}
    </div>
  );
}
