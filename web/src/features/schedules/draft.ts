import { ApiError } from "@/client/http";
import type { Schedule, ScheduleDetail } from "./words";

/** What a person writes into the form of a schedule. */
export interface ScheduleDraft {
  readonly id: string;
  readonly goal: string;
  readonly by: "cron" | "every";
  readonly cron: string;
  readonly timezone: string;
  readonly every: string;
  readonly budget: string;
  readonly overlap: Schedule["overlap"];
  readonly failures: string;
  /** One agent, without a plan. */
  readonly solo: "plan" | "solo";
}

export type Field = "id" | "goal" | "when" | "timezone" | "budget" | "failures" | "";
export type Mistakes = ReadonlyMap<Field, string>;

/** A schedule as a form; a new one is meant by the clock of whoever writes it. */
export function draftOf(schedule: ScheduleDetail | null): ScheduleDraft {
  return {
    id: schedule?.id ?? "",
    goal: schedule?.goal ?? "",
    by: schedule?.every == null ? "cron" : "every",
    cron: schedule?.cron ?? "",
    timezone: schedule?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    every: schedule?.every ?? "",
    budget: schedule?.budget_usd ?? "",
    overlap: schedule?.overlap ?? "skip",
    failures: schedule === null || schedule.max_failures === 0 ? "" : String(schedule.max_failures),
    solo: schedule?.loop === "agent" ? "solo" : "plan",
  };
}

/** What this page can tell itself; the server has the last word. */
export function mistakesOf(draft: ScheduleDraft): Mistakes {
  const found = new Map<Field, string>();
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/.test(draft.id.trim()))
    found.set("id", "Up to 40 of A-Z a-z 0-9 . _ -, such as nightly. Its runs are named after it.");
  if (draft.goal.trim() === "") found.set("goal", "Say what is to be worked on.");
  if (draft.by === "cron" && draft.cron.trim().split(/\s+/).length !== 5)
    found.set("when", "Five fields: minute hour day month weekday, such as 0 3 * * *.");
  if (draft.by === "every" && draft.every.trim() === "") found.set("when", "Such as 30m, 2h or 1d.");
  if (draft.budget.trim() !== "" && !/^\d{1,9}(\.\d{1,6})?$/.test(draft.budget.trim()))
    found.set("budget", "An amount such as 0.60, or nothing.");
  if (!/^\d{0,6}$/.test(draft.failures.trim())) found.set("failures", "A whole number, or nothing.");
  return found;
}

const FIELDS: readonly (readonly [about: RegExp, field: Field])[] = [
  [/cron line|interval/, "when"],
  [/time zone/, "timezone"],
  [/name of a schedule|schedule .* is there|exists/, "id"],
  [/USD/, "budget"],
  [/goal/, "goal"],
];

/** What the server refused, at the field that it is about. */
export function refusedOf(error: unknown, words: string): Mistakes {
  const message = error instanceof ApiError ? error.message : "";
  const field = FIELDS.find(([about]) => about.test(message))?.[1] ?? "";
  return new Map([[field, words]]);
}

function timesOf({ by, cron, timezone, every }: ScheduleDraft) {
  if (by === "every") return { every: every.trim() };
  return { cron: cron.trim(), ...(timezone.trim() !== "" && { timezone: timezone.trim() }) };
}

/** The body of `POST /schedules`, or of `PATCH` of one that is there: then its times only if they changed. */
export function bodyOf(
  draft: ScheduleDraft,
  schedule: ScheduleDetail | null,
): Readonly<Record<string, unknown>> {
  const times = timesOf(draft);
  const ways = {
    goal: draft.goal.trim(),
    budget_usd: draft.budget.trim() || null,
    overlap: draft.overlap,
    max_failures: Number(draft.failures.trim()),
  };
  if (schedule === null) return { id: draft.id.trim(), solo: draft.solo === "solo", ...times, ...ways };
  const isSame = JSON.stringify(times) === JSON.stringify(timesOf(draftOf(schedule)));
  return isSame ? ways : { ...times, ...ways };
}
