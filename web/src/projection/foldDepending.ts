import type { Draft } from "./draft";

const REASON = "dependency_failed";

/**
 * Blocks or frees a task by what it depends on, and those that wait for it: no event says so, since nobody drives
 * such a task yet. As the server's view does it; a mission at work says it of its own tasks.
 */
export function settle(draft: Draft, id: string): void {
  const waiting = [...behind(draft, id), id];
  for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
    if (settled(draft, one)) waiting.push(...behind(draft, one));
  }
}

/** Whether the standing of a task has changed by what stands before it. */
function settled(draft: Draft, id: string): boolean {
  const task = draft.get("tasks", id);
  if (task === undefined || draft.get("runs", id) !== undefined) return false;
  const mission = draft.get("runs", task.mission)?.status;
  if (task.mission !== "" && mission !== "completed" && mission !== "failed") return false;
  if (task.ended !== "" && !(task.ended === "blocked" && task.reason === REASON)) return false;
  const blockedBy = [...task.dependsOn].sort().find((one) => isInTheWay(draft, one)) ?? "";
  const ended = blockedBy === "" ? "" : "blocked";
  if (task.ended === ended && task.blockedBy === blockedBy) return false;
  const reason = ended === "" ? "" : REASON;
  draft.put("tasks", id, { ...task, ended, reason, blockedBy, status: ended === "" ? "pending" : "blocked" });
  return task.ended !== ended;
}

/** Whether a task has ended otherwise than done. */
function isInTheWay(draft: Draft, id: string): boolean {
  const task = draft.get("tasks", id);
  if (task === undefined) return false;
  if (task.ended !== "") return task.ended !== "done";
  const run = draft.get("runs", id)?.status;
  return run === "failed" || run === "cancelled";
}

function behind(draft: Draft, id: string): readonly string[] {
  return [...draft.all("tasks")].filter((task) => task.dependsOn.includes(id)).map((task) => task.id);
}
