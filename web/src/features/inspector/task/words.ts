import { endWords, GENERAL_REMEDY } from "@/projection/endWords";
import type { Run, Task } from "@/projection/graph";
import { type Meaning, runWords, taskWords } from "@/projection/status";

interface Said {
  readonly word: string;
  readonly meaning: Meaning;
  /** What it means and what can be done. */
  readonly sentence: string;
}

/** By what a task has failed, where it is no error. */
const KINDS: Readonly<Record<string, string>> = {
  max_iterations: "by a limit",
  stuck: "by a limit",
  budget_exhausted: "by a limit",
  rejected: "by a person",
  decision_invalid: "by its decision",
};

/** Where a task stands: ends of different kinds are never called alike. */
export function taskSays(task: Task, run: Run | undefined): Said {
  const { word, meaning } = taskWords(task);
  const said = (sentence: string, more = "") => ({
    word: more === "" ? word : `${word} ${more}`,
    meaning,
    sentence,
  });
  switch (task.status) {
    case "done":
      if (task.reason === "accepted") return said("A person has accepted its output.", "by a person");
      return said("A passed evaluation says so; its quotes were found in the outputs.", "with evidence");
    case "failed":
      return failed(task, run, said);
    case "blocked":
      return said(blockedBy(task, run));
    case "cancelled":
      return said("Somebody ended it; it was neither met nor missed.");
    case "pending":
      return said(waitsFor(task));
    case "active":
      return run !== undefined && run.status !== "running"
        ? said(`Its run: ${runWords(run.status).word}.`)
        : said("Its agent works on it.");
  }
}

function failed(task: Task, run: Run | undefined, said: (sentence: string, more: string) => Said): Said {
  const more = KINDS[task.reason] ?? "by an error";
  if (task.reason === "budget_exhausted") return said("The budget is used up. Raise it, then retry.", more);
  const end = endWords(task.reason || (run?.reason ?? ""));
  const why = (run?.message ?? "").replace(/[.\s]+$/, "");
  if (end !== null) {
    const detail = more === "by an error" && why !== "" ? ` (${why})` : "";
    return said(`It ${end.what}${detail}. ${end.remedy}`, more);
  }
  const told = [task.reason || run?.reason, why].filter(Boolean).join(": ");
  return said(`${told === "" ? "Its run ended without a result" : told}. ${GENERAL_REMEDY}`, more);
}

function blockedBy(task: Task, run: Run | undefined): string {
  if (task.reason === "dependency_failed") {
    return `${task.blockedBy || "A task before it"} was not done. Retry that one first.`;
  }
  if (task.reason === "missing_input") {
    if (task.blockedBy !== "")
      return `${task.blockedBy} is not there, or its agent may not read it. Provide or share it, then retry.`;
    // Nothing was missing at the beginning: its agent could not go on, for want of data or of a person's yes.
    const why = (run?.message ?? "").replace(/[.\s]+$/, "");
    return `Its agent could not go on${why === "" ? "" : `: ${why}`}. Give or allow what it lacks, then retry.`;
  }
  return "The budget is used up. Raise it to let it go on.";
}

function waitsFor(task: Task): string {
  if (task.agent === "") return "Nobody works on it: assign an agent.";
  if (task.dependsOn.length > 0) return `It begins when ${task.dependsOn.join(", ")} is done.`;
  return "It begins as soon as it is started.";
}
