import { type CommandState, type Enabled, canAct, no, YES } from "@/commands/command";
import { mayFork } from "@/commands/fork";
import { isFinal } from "@/projection/foldRuns";
import type { Run } from "@/projection/graph";

export const VERBS = [
  "pause",
  "resume",
  "step",
  "stop",
  "retry",
  "inject",
  "limit",
  "reconcile",
  "cancel",
  "compensate",
  "fork",
] as const;
export type Verb = (typeof VERBS)[number];

export const LABELS: Readonly<Record<Verb, string>> = {
  pause: "Pause",
  resume: "Resume",
  step: "Step",
  stop: "Stop",
  retry: "Retry",
  inject: "Leave a note",
  limit: "Set a limit",
  reconcile: "Settle outcome",
  cancel: "Cancel",
  compensate: "Undo",
  fork: "Fork",
};

/** What can be done to a run that stands like this; what cannot says why. */
export function allowed(verb: Verb, run: Run, state: Pick<CommandState, "ui">): Enabled {
  if (verb === "fork") return mayFork(state);
  const may = canAct(state);
  return may.ok ? suits(verb, run) : may;
}

function suits(verb: Verb, run: Run): Enabled {
  if (verb === "retry") return run.status === "failed" ? YES : no("Only a failed run is tried again.");
  if (verb === "compensate") return isFinal(run.status) ? YES : no("It is undone once it has ended.");
  if (isFinal(run.status)) return no("The run has ended. Fork it to go another way.");
  if (verb === "stop") return YES;
  if (verb === "pause") return run.status === "paused" ? no("It is paused already.") : YES;
  if (verb === "step") return run.status === "paused" ? YES : no("Pause it first.");
  if (verb === "resume")
    return run.status === "paused" || run.status === "budget_exhausted"
      ? YES
      : no("It goes on by itself: nobody has paused it.");
  if (verb === "reconcile")
    return run.status === "unknown_outcome" ? YES : no("The outcome of every step is known.");
  return YES;
}
