import type { GoalStatus, RunStatus, TaskStatus } from "./graph";

/** A status in words and with its meaning; the colour that belongs to the meaning is the screen's. */
export type Meaning = "quiet" | "working" | "attention" | "good" | "bad";

const RUNS: Readonly<Record<RunStatus, readonly [string, Meaning]>> = {
  pending: ["waits for a worker", "quiet"],
  running: ["running", "working"],
  paused: ["paused", "attention"],
  waiting: ["waiting", "working"],
  waiting_approval: ["needs approval", "attention"],
  unknown_outcome: ["unknown outcome", "attention"],
  budget_exhausted: ["out of budget", "attention"],
  completed: ["completed", "good"],
  failed: ["failed", "bad"],
  cancelled: ["cancelled", "quiet"],
};

const TASKS: Readonly<Record<TaskStatus, readonly [string, Meaning]>> = {
  pending: ["pending", "quiet"],
  active: ["active", "working"],
  blocked: ["blocked", "attention"],
  done: ["done", "good"],
  failed: ["failed", "bad"],
  cancelled: ["cancelled", "quiet"],
};

export function runWords(status: RunStatus): { readonly word: string; readonly meaning: Meaning } {
  const [word, meaning] = RUNS[status];
  return { word, meaning };
}

export function goalWords(status: GoalStatus): { readonly word: string; readonly meaning: Meaning } {
  return status === "blocked" ? taskWords(status) : runWords(status);
}

export function taskWords(status: TaskStatus): { readonly word: string; readonly meaning: Meaning } {
  const [word, meaning] = TASKS[status];
  return { word, meaning };
}
