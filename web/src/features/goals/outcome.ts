import { ASKED_ANEW, endWords, GENERAL_REMEDY } from "@/projection/endWords";
import { shortName } from "@/projection/event";
import { goalWords, type StatusWords } from "@/projection/status";
import type { GoalStatus } from "@/projection/graph";
import type { Goal, GoalLine, GoalTask } from "./useGoals";

export type OutcomeKind =
  | "planning"
  | "ready"
  | "working"
  | "asks"
  | "budget"
  | "paused"
  | "unknown"
  | "blocked"
  | "failed"
  | "cancelled"
  | "done";

/** Where a goal stands, and what helps it on. */
export interface Outcome {
  readonly kind: OutcomeKind;
  readonly title: string;
  /** The cause in one sentence. */
  readonly sentence: string;
  /** The task that it is about; null if it is about the goal as a whole. */
  readonly task: GoalTask | null;
}

const ENDED: ReadonlySet<string> = new Set(["completed", "failed", "cancelled"]);

/** Statuses come from the server: this only says which of them a person must hear first. */
export function outcomeOf(goal: Goal): Outcome {
  const said = (kind: OutcomeKind, title: string, sentence: string, task: GoalTask | null = null) => ({
    kind,
    title,
    sentence,
    task,
  });
  if (goal.status === "completed") return said("done", "Done", "");
  const isOpen = !ENDED.has(goal.run_status);
  const question = goal.approvals[0];
  if (isOpen && goal.launched_us === null) {
    if (question !== undefined)
      return said("ready", "The plan is ready", "Nothing begins before you launch it.");
    if (goal.run_status === "budget_exhausted") return outOfBudget(null);
    if (goal.run_status === "paused")
      return said("paused", "Planning is paused", "It goes on when you resume it.");
    return said(
      "planning",
      "A plan is being made",
      "You see who would do what, and what it may cost, before anything begins.",
    );
  }
  const with_ = (runStatus: string) => goal.tasks.find((task) => task.run_status === runStatus) ?? null;
  const exhausted = with_("budget_exhausted");
  if (goal.run_status === "budget_exhausted" || exhausted !== null) return outOfBudget(exhausted);
  const unknown = with_("unknown_outcome");
  if (unknown !== null)
    return said(
      "unknown",
      "Nobody knows what a call did",
      `${shortName(unknown.id)} made a call whose outcome was hidden. Say above what came of it.`,
      unknown,
    );
  if (isOpen && question !== undefined)
    return said(
      "asks",
      "It waits for your answer",
      `${shortName(question.run_id)} asks; the question stands above. Nothing is done until you answer.`,
    );
  const paused = with_("paused");
  if (goal.run_status === "paused" || paused !== null)
    return said("paused", "Paused", "Everything so far is kept. It goes on where it stopped.", paused);
  const first = (status: string) =>
    goal.tasks.find((task) => task.status === status && task.reason !== "dependency_failed") ?? null;
  if (goal.status === "blocked") {
    const task = first("blocked");
    return said("blocked", "Blocked: something is missing", goal.message || blockedWords(task), task);
  }
  if (goal.status === "failed") {
    const task = first("failed");
    return said("failed", failedTitle(goal, task), failedWords(goal, task), task);
  }
  if (goal.status === "cancelled")
    return said("cancelled", "Cancelled", "Somebody ended it. What was made by then is kept.");
  return said("working", "At work", "", null);
}

function outOfBudget(task: GoalTask | null): Outcome {
  return {
    kind: "budget",
    title: "Budget reached",
    sentence: "Everything so far is kept. It goes on where it stopped as soon as the budget is raised.",
    task,
  };
}

function blockedWords(task: GoalTask | null): string {
  if (task?.blocked_by) return `${shortName(task.id)} lacks ${task.blocked_by}.`;
  return "A task cannot go on with what there is.";
}

/** Whether a retry meets the same again: a task keeps its model and its record. */
export function mustBeAskedAnew(task: GoalTask | null): boolean {
  return ASKED_ANEW.has(task?.reason ?? "");
}

function failedTitle(goal: Goal, task: GoalTask | null): string {
  return endWords(task?.reason ?? goal.reason ?? "")?.title ?? "Failed";
}

/** What happened and what helps: of a listed end in our words, else in those of the server. */
function failedWords(goal: Goal, task: GoalTask | null): string {
  const reason = task?.reason ?? goal.reason ?? "";
  const end = endWords(reason);
  const name = task === null ? "It" : shortName(task.id);
  if (task !== null && end !== null) return `${name} ${end.what}. ${end.remedy}`;
  const told = goal.message || `${name} ended with ${reason || "an error"}`;
  const sentence = /[.!?]\s*$/u.test(told) ? told : `${told}.`;
  const where = task === null || end !== null ? "" : `Select ${name} to read what its run says. `;
  return `${sentence} ${where}${end?.remedy ?? GENERAL_REMEDY}`;
}

const QUESTION = /[Tt]ry:\s*(?:["“])?([^"”\n]+?\?)/u;

/** The question that a refusal names since it works here; "" if it names none. */
export function questionThatWorks(goal: Pick<Goal, "message">): string {
  return QUESTION.exec(goal.message)?.[1] ?? "";
}

/** The word of a list and of the head, with its meaning. */
export function statusWord(goal: Pick<GoalLine, "status" | "launched_us">): StatusWords {
  return goalWords(goal.status as GoalStatus, goal.launched_us !== null);
}
