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

const LIMITS: Readonly<Record<string, readonly [title: string, sentence: string]>> = {
  max_iterations: [
    "Out of iterations",
    "used all its iterations without meeting the criteria. Retry it for as many again.",
  ],
  stuck: [
    "Stuck",
    "decided the same again and again without new evidence. Leave it a note or other tools, then retry.",
  ],
  rejected: ["Rejected", "was rejected by a person. Its agent reads why when it is retried."],
  model_refused_call: [
    "The provider refused",
    "was refused by its model's provider for good: a key, a request or words that it does not take. Change that, then retry.",
  ],
  provider_unavailable: [
    "The provider is away",
    "was tried again as often as its model allows, and its provider was unavailable each time. Retry it when it is back.",
  ],
  rate_limited: [
    "The provider's rate limit",
    "met its provider's rate limit at every attempt. Retry it later.",
  ],
  decision_invalid: [
    "No usable decision",
    "got a reply from its model that was no decision, and no better one when asked again. Retry it, or ask again with another model.",
  ],
  output_invalid: [
    "No usable reply",
    "got no reply from its model that has the form it needs, also when asked again. Retry it, or ask again with another model.",
  ],
  model_timeout: [
    "The model did not answer",
    "waited for its model as long as is allowed, at every attempt. Retry it, or ask again with another model.",
  ],
  model_reply_broken: [
    "The reply was broken",
    "got replies from its model's provider that could not be read. Retry it later.",
  ],
  context_too_long: [
    "Too long for the model",
    "had more to show its model than that takes. Ask again with a model that takes more, or for less at once.",
  ],
  media_not_taken: [
    "Not for this model",
    "has an image, a sound or a file that its model does not take. Ask again with a model that does.",
  ],
  offline_cannot: [
    "Not possible offline",
    "needs more than the offline model does with certainty. Ask again with another model.",
  ],
  unknown_model: ["No such model", "asks a model that nobody here provides. Ask again with another one."],
  missing_key: [
    "A key is missing",
    "asks a model whose provider's key the server has not. Start the server with that key, then retry.",
  ],
  price_unknown: [
    "No price is known",
    "asks a model of unknown price, and a budget reserves what a call can cost. Set its price, then retry, or ask again with another model.",
  ],
  not_granted: [
    "Not allowed",
    "needed something that it is not granted. Its run says what; grant it, then retry.",
  ],
  access_denied: [
    "Not allowed",
    "needed something that it may not use. Its run says what; allow it, then retry.",
  ],
  limit_reached: [
    "A limit was reached",
    "met a limit that holds for it. Its run says which; raise it, then retry.",
  ],
  insufficient_funds: [
    "Not enough money",
    "could not pay for its next call. Its run says whose money it was; raise that, then retry.",
  ],
  quota_reached: [
    "The storage is used up",
    "could store nothing more: the tenant has as much as it may. Raise its quota, then retry.",
  ],
  replay_mismatch: [
    "It cannot go on",
    "was begun by code that has changed since, and its record does not fit it any more. Ask the goal again.",
  ],
};

const ASKED_ANEW: ReadonlySet<string> = new Set([
  "context_too_long",
  "media_not_taken",
  "offline_cannot",
  "unknown_model",
  "replay_mismatch",
]);

/** Whether a retry meets the same again: a task keeps its model and its record. */
export function mustBeAskedAnew(task: GoalTask | null): boolean {
  return ASKED_ANEW.has(task?.reason ?? "");
}

function failedTitle(goal: Goal, task: GoalTask | null): string {
  return LIMITS[task?.reason ?? goal.reason ?? ""]?.[0] ?? "Failed";
}

function failedWords(goal: Goal, task: GoalTask | null): string {
  const limit = LIMITS[task?.reason ?? ""];
  if (task !== null && limit !== undefined) return `${shortName(task.id)} ${limit[1]}`;
  const name = task === null ? "It" : shortName(task.id);
  const message = goal.message || `${name} ended with ${task?.reason || goal.reason || "an error"}.`;
  return task === null ? message : `${message} Select ${name} to read what its run says, then retry.`;
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
