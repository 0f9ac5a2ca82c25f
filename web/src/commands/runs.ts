import { ApiError, api, path } from "@/client/http";
import type { Run } from "@/projection/graph";
import { openRoots } from "@/projection/vitals";
import { toast } from "@/state/ui";
import { canAct, type Command, type CommandState, no, YES } from "./command";

export type RunVerb = "pause" | "resume" | "stop" | "step" | "cancel";

/** What the bar steers: the runs of the chosen mission, or all. Children follow their roots. */
export function targets({ ui, graph }: CommandState): readonly Run[] {
  const roots = openRoots(graph);
  return ui.mission === "" ? roots : roots.filter((run) => run.id === ui.mission);
}

const isPaused = (run: Run): boolean => run.status === "paused";
const isGoing = (run: Run): boolean => run.status !== "paused";

/** Asks for each; the effect arrives as an event. What is refused is told, by name. */
export async function forEachRun(runs: readonly Run[], verb: RunVerb): Promise<void> {
  const answers = await Promise.allSettled(runs.map((run) => api.post(`${path("runs", run.id)}/${verb}`)));
  const refused = answers.flatMap((answer, index) =>
    answer.status === "rejected" ? [{ run: runs[index]?.id ?? "", reason: answer.reason as unknown }] : [],
  );
  for (const { run, reason } of refused) {
    toast(`${run}: ${reason instanceof Error ? reason.message : String(reason)}`, {
      tone: "bad",
      advice: reason instanceof ApiError ? (reason.hint ?? "") : "",
    });
  }
}

function onRuns(
  verb: RunVerb,
  which: (run: Run) => boolean,
  nothing: string,
  rest: Pick<Command, "id" | "label" | "words"> & { readonly shortcut?: string },
): Command {
  const chosen = (state: CommandState) => targets(state).filter(which);
  return {
    group: "Runs",
    ...rest,
    enabled: (state) => {
      const may = canAct(state);
      if (!may.ok) return may;
      return chosen(state).length > 0 ? YES : no(nothing);
    },
    run: (state) => forEachRun(chosen(state), verb),
  };
}

export const runCommands: readonly Command[] = [
  onRuns("pause", isGoing, "Nothing is running.", {
    id: "run.pause_all",
    label: "Pause all",
    words: "hold wait",
    shortcut: "alt+shift+p",
  }),
  onRuns("resume", isPaused, "Nothing is paused.", {
    id: "run.resume_all",
    label: "Resume all",
    words: "go on continue",
  }),
  onRuns("step", isPaused, "Pause first: a step takes one paused run one cycle further.", {
    id: "run.step",
    label: "Step",
    words: "one cycle",
  }),
  onRuns("stop", isGoing, "Nothing is running.", {
    id: "run.stop_all",
    label: "Stop",
    words: "interrupt call in flight",
  }),
];
