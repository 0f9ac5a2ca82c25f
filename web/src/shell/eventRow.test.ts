import { expect, test } from "vitest";
import { History } from "../../tests/events";
import { dateOf, rowFor, timeOf } from "./eventRow";

test("what happens in a world is told by its tick, never as a date", () => {
  const [event] = new History().add("world:town", "tick.passed", {}, { space: "world:town" }).events;
  if (event === undefined) throw new Error("no event");
  const row = rowFor({ ...event, at_us: 41 });

  expect(timeOf(row)).toBe("tick 41");
  expect(dateOf(row)).toBe("tick 41 of town");
  expect(timeOf({ ...row, space: "main", atUs: 0 })).toMatch(/^\d\d:\d\d:\d\d$/);
});
