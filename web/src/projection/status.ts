import type { GoalStatus, RunStatus, Task, TaskStatus } from "./graph";

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
  completed: ["done", "good"],
  failed: ["failed", "bad"],
  cancelled: ["cancelled", "quiet"],
};

const BLOCKED: readonly [string, Meaning] = ["blocked", "bad"];

const TASKS: Readonly<Record<TaskStatus, readonly [string, Meaning]>> = {
  pending: ["pending", "quiet"],
  active: ["active", "working"],
  blocked: BLOCKED,
  done: ["done", "good"],
  failed: ["failed", "bad"],
  cancelled: ["cancelled", "quiet"],
};

export interface StatusWords {
  readonly word: string;
  readonly meaning: Meaning;
}

export function runWords(status: RunStatus): StatusWords {
  return worded(RUNS[status]);
}

/** A goal that nobody has launched is being planned, or its plan waits for a person. */
export function goalWords(status: GoalStatus, isLaunched: boolean): StatusWords {
  if (status === "blocked") return worded(BLOCKED);
  if (!isLaunched && status === "waiting_approval") return { word: "plan ready", meaning: "attention" };
  if (!isLaunched && (status === "running" || status === "pending"))
    return { word: "planning", meaning: "working" };
  return runWords(status);
}

/** A task whose budget is used up has done nothing wrong: it is called as its run is. */
export function taskWords({ status, reason }: Pick<Task, "status" | "reason">): StatusWords {
  return status === "blocked" && reason === "budget_exhausted" ? runWords(reason) : worded(TASKS[status]);
}

function worded([word, meaning]: readonly [string, Meaning]): StatusWords {
  return { word, meaning };
}
