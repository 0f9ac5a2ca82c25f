const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});

/** `14:02:11` in this browser's zone. */
export function clock(us: number): string {
  return CLOCK.format(us / 1000);
}

const DATE = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});

/** The time of today, of another day with its date, and with the year unless it is this one. */
export function moment(us: number, now = new Date()): string {
  const then = new Date(us / 1000);
  if (then.toDateString() === now.toDateString()) return clock(us);
  return then.getFullYear() === now.getFullYear() ? dayAndTime(us) : DATE.format(then);
}

/** `22 Nov, 14:02`. */
export function dayAndTime(us: number): string {
  return DAY.format(us / 1000);
}
