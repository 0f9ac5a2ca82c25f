import type { Shape } from "@/client/types";
import type { Tone } from "@/ui/tone";

export type Schedule = Shape<"ScheduleLine">;
export type ScheduleDetail = Shape<"ScheduleShown">;
export type Firing = Shape<"Firing">;

export const KEY = ["schedules"] as const;
/** What events change what is shown: those of schedules, and of the runs that they start. */
export const NEWS = ["schedule.", "run."] as const;

/** When it comes: `every 30m`, or the cron line with its zone. */
export function timesOf(schedule: Schedule): string {
  if (schedule.every !== null) return `every ${schedule.every}`;
  return schedule.timezone === "UTC" ? `${schedule.cron} (UTC)` : `${schedule.cron} (${schedule.timezone})`;
}

export function standing(schedule: Schedule): { readonly word: string; readonly tone: Tone } {
  if (schedule.status === "active") {
    return schedule.failures > 0
      ? { word: "active, failing", tone: "warn" }
      : { word: "active", tone: "money" };
  }
  if (schedule.reason === "unknown_zone") {
    return { word: "paused: nobody here knows its time zone", tone: "bad" };
  }
  return schedule.reason === "failures"
    ? { word: "paused by its failures", tone: "bad" }
    : { word: "paused", tone: "neutral" };
}

/** What becomes of a time that comes while an earlier run has not ended. */
export const OVERLAPS: readonly { readonly value: Schedule["overlap"]; readonly label: string }[] = [
  { value: "skip", label: "leave the time out" },
  { value: "queue", label: "wait until it has ended" },
  { value: "cancel_running", label: "cancel it and start" },
  { value: "allow", label: "start beside it" },
];

export function overlapWords(overlap: Schedule["overlap"]): string {
  const found = OVERLAPS.find((one) => one.value === overlap);
  return `while an earlier run goes on: ${found?.label ?? overlap}`;
}

const SKIPS: Readonly<Record<string, string>> = {
  overlap: "an earlier run had not ended",
  queue_full: "another time was waiting already",
  missed: "nobody drove runs then",
  run_exists: "a run of that id was there",
  too_many: "too many runs had not ended",
};

/** Why the last time was skipped, in words. */
export function skipWords(reason: string): string {
  return SKIPS[reason] ?? reason;
}
