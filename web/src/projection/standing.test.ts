import { expect, test } from "vitest";
import type { Task, TaskStatus } from "./graph";
import { goalStatus } from "./standing";

function tasks(...statuses: TaskStatus[]): Task[] {
  return statuses.map((status) => ({ status, parent: "", agent: "ana" }) as Task);
}

test.each([
  [["done", "done"], "completed"],
  [["done", "active", "failed"], "running"],
  [["done", "pending", "failed"], "pending"],
  [["done", "blocked"], "blocked"],
  [["blocked", "failed"], "failed"],
  [["blocked", "cancelled"], "blocked"],
  [["done", "cancelled"], "cancelled"],
] as const)("once its run has ended, a goal whose tasks are %s is %s", (statuses, expected) => {
  expect(goalStatus(tasks(...statuses), "failed")).toBe(expected);
  expect(goalStatus(tasks(...[...statuses].reverse()), "completed")).toBe(expected);
  expect(goalStatus(tasks(...statuses), "paused")).toBe("paused");
});

test("a goal without tasks is its run", () => {
  expect(goalStatus([], "failed")).toBe("failed");
});
