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

/** `22 Nov, 14:02`. */
export function dayAndTime(us: number): string {
  return DAY.format(us / 1000);
}
