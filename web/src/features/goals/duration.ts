import type { Goal } from "./useGoals";

type Timed = Pick<Goal, "launched_us" | "ended_us" | "status" | "tasks">;

/** From launch to end; of one that has not ended, so far: until now, or until it stopped to wait. */
export function durationWords(goal: Timed, nowMs: number): string {
  const from = goal.launched_us ?? 0;
  // Tasks that were tried again end after the goal's run did.
  const ended = goal.ended_us === null || goal.ended_us === undefined ? null : goal.ended_us;
  const known = ended ?? (goal.status === "running" ? nowMs * 1_000 : 0);
  const last = Math.max(known, ...goal.tasks.map((task) => task.changed_us));
  const seconds = Math.max(0, (last - from) / 1_000_000);
  const words =
    seconds < 10
      ? `${seconds.toFixed(1)} s`
      : seconds < 120
        ? `${Math.round(seconds)} s`
        : seconds < 7200
          ? `${Math.round(seconds / 60)} min`
          : `${Math.round(seconds / 3600)} h`;
  return ended === null ? `${words} so far` : words;
}
