import type { Agent, Graph, Task } from "@/projection/graph";
import { runWords, type StatusWords, taskWords } from "@/projection/status";
import { idOf, shortName } from "@/projection/event";

/** What an agent does now, in words: the action while it works, else where its run or task stands. */
export function agentWords(graph: Graph, agent: Agent): StatusWords {
  const run = graph.runs.get(agent.runId);
  const task = graph.tasks.get(agent.task);
  if (run === undefined) return { word: task === undefined ? "idle" : "not begun", meaning: "quiet" };
  if (run.status === "running") return { word: doingWords(run.doing, agent.action), meaning: "working" };
  if (task !== undefined && task.ended !== "" && task.id === run.id) return taskEndWords(task);
  return runWords(run.status);
}

function doingWords(doing: string, action: string): string {
  if (doing.startsWith("model ")) return `asks ${doing.slice("model ".length)}`;
  if (doing !== "") return `uses ${doing}`;
  return action === "" ? "running" : action;
}

const REASONS: Readonly<Record<string, string>> = {
  max_iterations: "iterations used up",
  decision_invalid: "decision not readable",
  dependency_failed: "what it depends on is not done",
  budget_exhausted: "out of budget",
  stuck: "decided the same again and again",
};

/** Why a task did not get done, in words; names what it waits for where the events do. */
function reasonWords(task: Task): string {
  const by = task.blockedBy === "" ? "" : shortName(idOf(task.blockedBy));
  if (by !== "" && task.reason === "dependency_failed") return `${by} is not done`;
  if (by !== "" && task.reason === "missing_input") return `${by} is missing`;
  if (task.reason === "missing_input" && by === "") return "its agent could not go on";
  return REASONS[task.reason] ?? task.reason.replaceAll("_", " ");
}

export function taskEndWords(task: Task): StatusWords {
  const { word, meaning } = taskWords(task);
  if (task.reason === "" || task.status === "done") return { word, meaning };
  return { word: `${word}: ${reasonWords(task)}`, meaning };
}

/** What a task is called: its goal where the events have it, else the last part of its id. */
export function taskTitle(graph: Graph, task: Task): string {
  return task.goal || graph.runs.get(task.id)?.goal || shortName(task.id);
}

const VERBS = {
  read: "read",
  wrote: "wrote",
  invoked: "invoked",
  sold: "sold to",
  delegated: "delegated to",
  depends: "then",
} as const;

export function edgeWord(kind: keyof typeof VERBS): string {
  return VERBS[kind];
}
