import { expect, test } from "vitest";
import { churn } from "../../tests/events";
import { foldAll } from "../../tests/fold";
import type { Task, TaskStatus } from "./graph";
import { goalStatus, standing, tasksOf } from "./standing";

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

test("a fork of a task is no task of the goal", () => {
  const forked = churn().add("run:churn/figures.fork-1", "run.forked", { origin: "churn/figures", at: 5 });
  const graph = foldAll(forked.events);

  expect(graph.tasks.get("churn/figures.fork-1")?.mission).toBe("churn");
  expect(tasksOf(graph, "churn")).toEqual(tasksOf(foldAll(churn().events), "churn"));
  expect(standing(graph, "churn")).toMatchObject({ tasks: tasksOf(graph, "churn").length });
});
