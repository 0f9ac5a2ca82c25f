import { useMemo } from "react";
import { previousPrompt, promptBefore, promptSteps, type PromptStep } from "@/projection/rowsPrompt";
import { eventLog, useEvents, useGraph } from "@/state/log";
import { useUi } from "@/state/ui";
import { useConsole } from "./consoleStore";
import { selectedRun } from "./forkTarget";

export interface Prompts {
  /** All that were sent up to where one looks, the oldest first. */
  readonly all: readonly PromptStep[];
  readonly shown: PromptStep | undefined;
  readonly previous: PromptStep | undefined;
  /** Who was shown it. */
  readonly agent: string;
  /** Whether the event that one looks at belongs to no prompt. */
  readonly isNone: boolean;
}

/** The prompt that one looks at: of the chosen event, else the newest of what is selected, else the newest. */
export function usePrompts(): Prompts {
  const events = useEvents();
  const graph = useGraph();
  const ui = useUi();
  const looked = useConsole((state) => state.looked);
  const all = useMemo(() => promptSteps(events), [events]);
  const isPast = looked !== null && looked.position > graph.position;
  const at = isPast ? null : looked;
  const run = selectedRun({ ui, graph });
  const newest = all.findLast((step) => step.runId === run) ?? all.at(-1);
  const shown = at === null ? newest : promptBefore(all, at);
  const previous = shown === undefined ? undefined : previousPrompt(all, shown);
  const runId = shown?.runId ?? "";
  const agent = eventLog.graph.runs.get(runId)?.agent || runId;
  return { all, shown, previous, agent, isNone: at !== null && shown === undefined };
}
