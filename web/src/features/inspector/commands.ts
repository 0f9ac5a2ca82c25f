import { api, path } from "@/client/http";
import { canAct, type Command, type CommandState, type Enabled, no, YES } from "@/commands/command";
import { isFinal } from "@/projection/graph";
import type { Graph, Run, Task } from "@/projection/graph";
import { toast } from "@/state/ui";

export function openRunsOf(graph: Graph, agent: string): readonly Run[] {
  return [...graph.runs.values()].filter((run) => run.agent === agent && !isFinal(run.status));
}

function selectedTask({ ui, graph }: CommandState): Task | undefined {
  return ui.selection?.kind === "task" ? graph.tasks.get(ui.selection.id) : undefined;
}

export type TaskVerb = "start" | "retry" | "cancel" | "judge";

/** Whether a task can be started, tried again or ended; the server has the last word. */
export function taskCan(task: Task, verb: TaskVerb, run: Run | undefined): Enabled {
  if (verb === "start") {
    if (task.agent === "") return no("Assign an agent first.");
    return task.status === "pending" && run === undefined ? YES : no("Only what is pending can be started.");
  }
  if (verb === "retry") {
    if (task.status === "failed" || task.status === "blocked") return YES;
    return task.status === "cancelled" && run === undefined
      ? YES
      : no("Only what failed, was blocked or was cancelled before it began can be tried again.");
  }
  if (verb === "judge") {
    if (task.outputs.length === 0) return no("It has made no output.");
    const isOver = run !== undefined && isFinal(run.status) && run.status !== "cancelled";
    return isOver ? YES : no("Its output is judged when it has ended.");
  }
  const isOpen = task.status === "pending" || task.status === "active" || task.status === "blocked";
  return isOpen ? YES : no("It has ended.");
}

function onTask(verb: Exclude<TaskVerb, "judge">, label: string, done: string): Command {
  return {
    id: `task.${verb}`,
    label,
    group: "Selected task",
    enabled: (state) => {
      const task = selectedTask(state);
      if (task === undefined) return no("Select a task first.");
      const may = canAct(state);
      return may.ok ? taskCan(task, verb, state.graph.runs.get(task.id)) : may;
    },
    run: async (state) => {
      await api.post(`${path("tasks", selectedTask(state)?.id ?? "")}/${verb}`);
      toast(done, { tone: "good" });
    },
  };
}

export const commands: readonly Command[] = [
  onTask("start", "Start task", "Started"),
  onTask("retry", "Retry task", "Retried"),
  onTask("cancel", "Cancel task", "It is cancelled."),
];
