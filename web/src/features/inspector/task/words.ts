import type { Run, Task } from "@/projection/graph";
import { type Meaning, runWords, taskWords } from "@/projection/status";

interface Said {
  readonly word: string;
  readonly meaning: Meaning;
  /** What it means and what can be done. */
  readonly sentence: string;
}

const LIMITS: Readonly<Record<string, string>> = {
  max_iterations:
    "The last iteration that was allowed is over, and the criteria are not met. Retry it for as many again.",
  stuck: "It decided the same three times without new evidence. Leave it a note or other tools, then retry.",
  budget_exhausted: "The budget is used up. Raise it, then retry.",
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
  const limit = LIMITS[task.reason];
  if (limit !== undefined) return said(limit, "by a limit");
  if (task.reason === "rejected") {
    return said("A person has rejected its output. Its agent reads why when it is retried.", "by a person");
  }
  if (task.reason === "decision_invalid") {
    return said(
      "The model's reply was no decision, nor was its repair. Retry, or choose another model.",
      "by its decision",
    );
  }
  const why = [task.reason || run?.reason, run?.message].filter(Boolean).join(": ");
  return said(
    `${why === "" ? "Its run ended without a result" : why}. Retry it once the cause is gone.`,
    "by an error",
  );
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
