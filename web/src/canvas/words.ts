import { endWords } from "@/projection/endWords";
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

/** Why a task waits for others or for money, which is no end. */
const WAITS: Readonly<Record<string, string>> = {
  dependency_failed: "what it depends on is not done",
  budget_exhausted: "out of budget",
};

/** Why a task did not get done, in words; names what it waits for where the events do. */
function reasonWords(task: Task): string {
  const by = task.blockedBy === "" ? "" : shortName(idOf(task.blockedBy));
  if (by !== "" && task.reason === "dependency_failed") return `${by} is not done`;
  if (by !== "" && task.reason === "missing_input") return `${by} is missing`;
  if (task.reason === "missing_input" && by === "") return "its agent could not go on";
  return WAITS[task.reason] ?? endTitle(task.reason);
}

function endTitle(reason: string): string {
  const title = endWords(reason)?.title;
  if (title === undefined) return reason.replaceAll("_", " ");
  return title.charAt(0).toLowerCase() + title.slice(1);
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
