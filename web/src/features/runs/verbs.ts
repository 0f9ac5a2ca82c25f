import { type CommandState, type Enabled, canAct, no, YES } from "@/commands/command";
import { mayFork } from "@/commands/fork";
import { isFinal } from "@/projection/graph";
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
export function allowed(
  verb: Verb,
  run: Run,
  state: Pick<CommandState, "ui">,
  hasLeftCalls: boolean,
): Enabled {
  if (verb === "fork") return mayFork(state);
  const may = canAct(state);
  return may.ok ? suits(verb, run, hasLeftCalls) : may;
}

/** Where words are read instead, for runs that read no notes, by their loop. */
const TOLD_ELSEWHERE: Readonly<Record<string, string>> = {
  mission: "A goal reads no notes. Leave it on one of its tasks.",
  chat: "A turn reads no notes. Say it in the chat.",
};

function suits(verb: Verb, run: Run, hasLeftCalls: boolean): Enabled {
  const elsewhere = TOLD_ELSEWHERE[run.loop];
  if (verb === "inject" && elsewhere !== undefined) return no(elsewhere);
  if (verb === "retry") return run.status === "failed" ? YES : no("Only a failed run is tried again.");
  if (verb === "compensate") return isFinal(run.status) ? YES : no("It is undone once it has ended.");
  if (verb === "reconcile" && hasLeftCalls && isFinal(run.status)) return YES;
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
