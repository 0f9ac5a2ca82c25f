import { ApiError, api, path } from "@/client/http";
import { isFinal } from "@/projection/graph";
import type { Graph, Run } from "@/projection/graph";
import { openRoots } from "@/projection/vitals";
import { toast } from "@/state/ui";
import { canAct, type Command, type CommandState, no, YES } from "./command";

export type RunVerb = "pause" | "resume" | "stop" | "step" | "cancel";

/** What the bar steers: the runs of the chosen mission, or all. Children follow their roots. */
export function targets({ ui, graph }: CommandState): readonly Run[] {
  const roots = openRoots(graph);
  return ui.mission === "" ? roots : roots.filter((run) => run.id === ui.mission);
}

const DEPTH_MAX = 20;

function openChildren(graph: Graph, run: Run): readonly Run[] {
  return [...graph.runs.values()].filter((one) => one.parent === run.id && !isFinal(one.status));
}

/** Whether a person holds all of a tree: its root, or everything that the root waits for. */
function isHeld(graph: Graph, run: Run, depth = 0): boolean {
  if (run.status === "paused") return true;
  if (run.status !== "waiting" || depth > DEPTH_MAX) return false;
  const children = openChildren(graph, run);
  return children.length > 0 && children.every((one) => isHeld(graph, one, depth + 1));
}

/** The topmost paused runs of a tree: what is below them goes on with them. */
function pausedIn(graph: Graph, run: Run, depth = 0): readonly Run[] {
  if (run.status === "paused") return [run];
  if (depth > DEPTH_MAX) return [];
  return openChildren(graph, run).flatMap((one) => pausedIn(graph, one, depth + 1));
}

/** What of the targets works, what a person holds, and all that can still go on. */
export function steered(state: CommandState) {
  const open = targets(state);
  return {
    open,
    going: open.filter((run) => !isHeld(state.graph, run)),
    paused: open.flatMap((run) => pausedIn(state.graph, run)),
  };
}

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
  which: "open" | "going" | "paused",
  nothing: string,
  rest: Pick<Command, "id" | "label" | "words"> & { readonly shortcut?: string },
): Command {
  const chosen = (state: CommandState) => steered(state)[which];
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
  onRuns("pause", "going", "Nothing is running.", {
    id: "run.pause_all",
    label: "Pause all",
    words: "hold wait",
    shortcut: "alt+shift+p",
  }),
  onRuns("resume", "paused", "Nothing is paused.", {
    id: "run.resume_all",
    label: "Resume all",
    words: "go on continue",
  }),
  onRuns("step", "paused", "Pause first: a step takes what is paused one iteration further.", {
    id: "run.step",
    label: "Step",
    words: "one cycle iteration",
  }),
  onRuns("stop", "open", "Nothing is running.", {
    id: "run.stop_all",
    label: "Stop",
    words: "interrupt call in flight",
  }),
];
