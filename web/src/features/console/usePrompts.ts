import { useMemo } from "react";
import { promptBefore, promptSteps, type PromptStep } from "@/projection/rowsPrompt";
import { useEvents, useGraph } from "@/state/log";
import { useUi } from "@/state/ui";
import { useConsole } from "./consoleStore";
import { selectedRun } from "./forkTarget";

export interface Prompts {
  /** All that were sent up to where one looks, the oldest first. */
  readonly all: readonly PromptStep[];
  /** That of the event that one looks at; of none, the newest. */
  readonly shown: PromptStep | undefined;
  /** The newest of what is selected, else the newest. */
  readonly newest: PromptStep | undefined;
  /** Whether the event that one looks at belongs to no prompt. */
  readonly isNone: boolean;
}

/** The prompts there are, and the one that one looks at. */
export function usePrompts(): Prompts {
  const events = useEvents();
  const graph = useGraph();
  const ui = useUi();
  const looked = useConsole((state) => state.looked);
  const all = useMemo(() => promptSteps(events), [events]);
  const run = selectedRun({ ui, graph });
  const newest = all.findLast((step) => step.runId === run) ?? all.at(-1);
  // What one looked at may lie in the future of the moment that is shown.
  const at = looked === null || looked.position > graph.position ? null : looked;
  const shown = at === null ? newest : promptBefore(all, at);
  return { all, shown, newest, isNone: at !== null && shown === undefined };
}
