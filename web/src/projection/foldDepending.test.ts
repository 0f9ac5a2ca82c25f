import { expect, test } from "vitest";
import { History } from "../../tests/events";
import { foldAll } from "../../tests/fold";

/** `a`, then `b`, then `end`, each waiting for the one before it; nobody drives them together. */
function line(): History {
  const history = new History();
  const before: Readonly<Record<string, string[]>> = { a: [], b: ["tasks/a"], end: ["tasks/b"] };
  for (const [slug, depends_on] of Object.entries(before)) {
    const task = `tasks/${slug}`;
    history.add(`artifact:${task}`, "task.created", { task, agent: "ana", depends_on, max_iterations: 3 });
  }
  return history;
}

function started(history: History): History {
  return history
    .add("run:tasks/a", "run.started", { loop: "task", agent: "ana", model: "m" })
    .add("run:tasks/a", "task.begun", { key: "begun", agent: "ana", max_iterations: 3 });
}

function stand(history: History) {
  const tasks = [...foldAll(history.events).tasks.values()];
  return Object.fromEntries(tasks.map((one) => [one.id.slice(6), [one.status, one.reason, one.blockedBy]]));
}

const PENDING = ["pending", "", ""];
const behind = (task: string) => ["blocked", "dependency_failed", task];

test.each([
  ["task.ended", { key: "ended", status: "failed", reason: "stuck", iterations: 3 }],
  ["run.failed", { reason: "x" }],
  ["run.cancelled", {}],
])("after %s whatever waits for the task is blocked, until it is tried again", (kind, data) => {
  const history = started(line());
  expect(stand(history)).toMatchObject({ b: PENDING, end: PENDING });

  history.add("run:tasks/a", kind, data);
  expect(stand(history)).toMatchObject({ b: behind("tasks/a"), end: behind("tasks/b") });

  history.add("run:tasks/a", "run.reopened");
  expect(stand(history)).toMatchObject({ b: PENDING, end: PENDING });
});

test("a task that is made or changed later is blocked, or free, at once", () => {
  const history = line().add("artifact:tasks/a", "task.cancelled", { task: "tasks/a" });
  const more = { task: "tasks/more", agent: "ana", max_iterations: 3 };
  history.add("artifact:tasks/more", "task.created", { ...more, depends_on: ["tasks/a"] });
  expect(stand(history)).toMatchObject({ b: behind("tasks/a"), more: behind("tasks/a") });

  history.add("artifact:tasks/more", "task.changed", more);
  expect(stand(history)).toMatchObject({ b: behind("tasks/a"), more: PENDING });

  history.add("artifact:tasks/a", "task.reopened", { task: "tasks/a" });
  expect(stand(history)).toMatchObject({ a: PENDING, b: PENDING, end: PENDING });
});

test("a person's word on an output ends a task, and frees or blocks what waits for it", () => {
  const failed = { key: "ended", status: "failed", reason: "stuck", iterations: 3 };
  const history = started(line()).add("run:tasks/a", "task.ended", failed).add("run:tasks/a", "run.failed");
  expect(stand(history)).toMatchObject({ b: behind("tasks/a") });

  const word = { task: "tasks/a", ref: "tasks/a/out@1" };
  history.add("artifact:tasks/a", "output.judged", { ...word, accepted: true });
  expect(stand(history)).toMatchObject({ a: ["done", "accepted", ""], b: PENDING });

  history.add("artifact:tasks/a", "output.judged", word);
  expect(stand(history)).toMatchObject({ a: ["failed", "rejected", ""], b: behind("tasks/a") });
});

test("what is done blocks nobody, and tasks of a mission wait for its word", () => {
  const done = { key: "ended", status: "done", reason: "", iterations: 1 };
  expect(stand(started(line()).add("run:tasks/a", "task.ended", done))).toMatchObject({ b: PENDING });

  const own = { task: "m/letter", mission: "m", agent: "ana", depends_on: ["tasks/a"], max_iterations: 3 };
  const history = line()
    .add("artifact:m/letter", "task.created", own)
    .add("artifact:tasks/a", "task.cancelled", { task: "tasks/a" });
  expect(foldAll(history.events).tasks.get("m/letter")?.status).toBe("pending");
});
