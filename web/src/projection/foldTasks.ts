import type { Draft } from "./draft";
import { flag, idOf, integer, missionOf, parsed, splitStream, text, texts, type WireEvent } from "./event";
import { settle } from "./foldDepending";
import { isFinal } from "./foldRuns";
import type { Iteration, Mark, Run, RunStatus, Task, TaskStatus } from "./graph";

type Fold = (draft: Draft, event: WireEvent, id: string) => void;

/** Where a task stands: what its loop said, else what its run says. As the server's view does it. */
export function taskStatus(ended: string, run: RunStatus | undefined): TaskStatus {
  if (run === "cancelled") return "cancelled";
  if (ended === "done" || ended === "failed" || ended === "blocked" || ended === "cancelled") return ended;
  if (run === undefined) return "pending";
  if (run === "budget_exhausted") return "blocked";
  return run === "failed" || run === "completed" ? "failed" : "active";
}

function blank(id: string): Task {
  return {
    id,
    mission: missionOf(id),
    goal: "",
    criteria: "",
    agent: "",
    parent: "",
    status: "pending",
    ended: "",
    reason: "",
    blockedBy: "",
    iteration: 0,
    iterationsMax: 0,
    iterationsBefore: 0,
    marks: [],
    dependsOn: [],
    inputs: [],
    outputs: [],
    iterations: [],
  };
}

function put(draft: Draft, id: string, fields: Partial<Task>): void {
  const task = { ...(draft.get("tasks", id) ?? blank(id)), ...fields };
  draft.put("tasks", id, { ...task, status: taskStatus(task.ended, draft.get("runs", id)?.status) });
}

const NO_END = { ended: "", reason: "", blockedBy: "", outputs: [] } as const;
const START: Mark = { seq: 0, iteration: 0, before: 0, ...NO_END };
const GOES_ON: ReadonlySet<string> = new Set([
  "max_iterations",
  "stuck",
  "decision_invalid",
  "missing_input",
]);

function mark(draft: Draft, event: WireEvent, id: string, changed: Partial<Mark>): void {
  const marks = draft.get("tasks", id)?.marks;
  if (marks === undefined) return;
  put(draft, id, { marks: [...marks, { ...(marks.at(-1) ?? START), ...changed, seq: event.seq }] });
}

/** Whether the limit counts from where a task had ended. As the server's `missions/task/loop_state.py` does it. */
function countsAnew({ ended, reason, iteration }: Mark): boolean {
  const goesOn = ended === "done" || GOES_ON.has(reason);
  return goesOn && !(reason === "missing_input" && iteration === 0);
}

function defined(draft: Draft, event: WireEvent): void {
  const id = text(event, "task");
  if (id === "") return;
  const before = draft.get("tasks", id);
  const agent = text(event, "agent");
  const dependsOn = texts(event, "depends_on");
  const iterationsMax = (before?.iterationsBefore ?? 0) + integer(event, "max_iterations");
  put(draft, id, {
    mission: event.kind === "task.created" ? text(event, "mission") : (before?.mission ?? missionOf(id)),
    parent: text(event, "parent", before?.parent ?? ""),
    agent,
    dependsOn,
    inputs: texts(event, "inputs"),
    iterationsMax,
  });
  if (agent !== "") assign(draft, agent, id, iterationsMax);
  if (event.kind === "task.created") for (const other of dependsOn) draft.link("depends", other, id, event);
}

/** The agent shows this task, unless it works on another one. */
function assign(draft: Draft, agentId: string, task: string, iterationsMax: number): void {
  const agent = draft.agent(agentId);
  const current = agent.task === "" ? undefined : draft.get("tasks", agent.task);
  const busy =
    current !== undefined &&
    current.id !== task &&
    (current.status === "active" || current.status === "pending");
  if (!busy) draft.put("agents", agentId, { ...agent, task, iterationsMax });
  else draft.put("agents", agentId, agent);
}

function begun(draft: Draft, event: WireEvent, id: string): void {
  const agentId = text(event, "agent");
  const iterationsMax = (draft.get("tasks", id)?.iterationsBefore ?? 0) + integer(event, "max_iterations");
  const inputs = texts(event, "inputs");
  put(draft, id, { agent: agentId, iterationsMax, inputs, ended: "", reason: "", blockedBy: "" });
  if (agentId === "") return;
  draft.put("agents", agentId, {
    ...draft.agent(agentId),
    runId: id,
    task: id,
    action: "",
    iteration: 0,
    iterationsMax,
  });
  for (const ref of inputs) draft.link("read", idOf(ref), agentId, event);
}

function iterate(draft: Draft, event: WireEvent, id: string, fields: Partial<Iteration>): void {
  const task = draft.get("tasks", id);
  if (task === undefined) return;
  const n = integer(event, "iteration");
  if (n > task.iteration) mark(draft, event, id, { iteration: n });
  const before = task.iterations.find((one) => one.n === n);
  const next: Iteration = {
    n,
    position: event.position,
    atUs: event.at_us,
    action: "",
    tool: "",
    reason: "",
    repeats: 0,
    steering: "",
    actedSeq: 0,
    artifact: "",
    isError: false,
    code: "",
    judgedSeq: 0,
    passed: null,
    summary: "",
    void: "",
    ...before,
    ...fields,
  };
  put(draft, id, {
    iteration: Math.max(task.iteration, n),
    iterations:
      before === undefined
        ? [...task.iterations, next]
        : task.iterations.map((one) => (one.n === n ? next : one)),
  });
}

function decided(draft: Draft, event: WireEvent, id: string): void {
  const decision = parsed(event, "decision");
  const steering = text(event, "steering");
  const action = text(event, "action");
  iterate(draft, event, id, {
    action,
    tool: text(event, "tool"),
    reason: typeof decision["reason"] === "string" ? decision["reason"] : "",
    repeats: integer(event, "repeats"),
    steering,
  });
  const agent = draft.get("tasks", id)?.agent ?? "";
  if (agent !== "")
    draft.patch("agents", agent, { iteration: integer(event, "iteration"), action, steering });
}

function undecided(draft: Draft, event: WireEvent, id: string): void {
  iterate(draft, event, id, {
    isError: true,
    code: "decision_invalid",
    reason: event.texts["mistakes"] ?? "",
  });
}

function acted(draft: Draft, event: WireEvent, id: string): void {
  const artifact = text(event, "artifact");
  const outcome = { artifact, isError: flag(event, "is_error"), code: text(event, "code") };
  iterate(draft, event, id, { actedSeq: event.seq, ...outcome });
  const agent = draft.get("tasks", id)?.agent ?? "";
  for (const ref of texts(event, "read")) draft.link("read", idOf(ref), agent, event);
}

function judged(draft: Draft, event: WireEvent, id: string): void {
  const verdict = parsed(event, "verdict");
  iterate(draft, event, id, {
    judgedSeq: event.seq,
    passed: flag(event, "passed"),
    summary: typeof verdict["summary"] === "string" ? verdict["summary"] : "",
    void: text(event, "void"),
  });
}

function ended(draft: Draft, event: WireEvent, id: string): void {
  const end = {
    ended: text(event, "status"),
    reason: text(event, "reason"),
    blockedBy: text(event, "by"),
    outputs: texts(event, "outputs"),
    iteration: integer(event, "iterations"),
  };
  put(draft, id, end);
  mark(draft, event, id, end);
  handOver(draft, id);
}

/** Tasks of one agent go on side by side: what it shows is one that it works on, as long as there is one. */
function handOver(draft: Draft, id: string): void {
  const agent = draft.get("agents", draft.get("tasks", id)?.agent ?? "");
  if (agent === undefined || agent.runId !== id) return;
  const isOpen = (run: Run | undefined) => run !== undefined && !isFinal(run.status);
  const next = [...draft.all("tasks")].find(
    (one) => one.agent === agent.id && one.ended === "" && isOpen(draft.get("runs", one.id)),
  );
  if (next === undefined) return;
  const { iteration, iterationsMax } = next;
  const action = next.iterations.at(-1)?.action ?? "";
  draft.put("agents", agent.id, {
    ...agent,
    runId: next.id,
    task: next.id,
    action,
    iteration,
    iterationsMax,
  });
}

function blocked(draft: Draft, event: WireEvent): void {
  const id = text(event, "task");
  const task = draft.get("tasks", id);
  if (task === undefined || task.ended !== "") return;
  put(draft, id, { ended: "blocked", reason: text(event, "reason"), blockedBy: text(event, "by") });
}

/** A task that nobody had begun with is not to be done; one with a run ends with its run. */
function cancelled(draft: Draft, event: WireEvent): void {
  const id = text(event, "task");
  const task = draft.get("tasks", id);
  if (task === undefined || (task.ended !== "" && task.ended !== "blocked")) return;
  put(draft, id, { ended: "cancelled", reason: "cancelled" });
}

/** A person's word stands above what the loop and its evaluator have come to. */
function outputJudged(draft: Draft, event: WireEvent): void {
  const id = text(event, "task");
  if (draft.get("tasks", id) === undefined) return;
  const [ended, reason] = flag(event, "accepted") ? ["done", "accepted"] : ["failed", "rejected"];
  put(draft, id, { ended, reason, blockedBy: "" });
}

function wantedAgain(draft: Draft, event: WireEvent): void {
  const id = text(event, "task");
  if (draft.get("tasks", id) !== undefined) put(draft, id, { ended: "", reason: "", blockedBy: "" });
}

function planned(draft: Draft, event: WireEvent, id: string): void {
  const cost = integer(event, "cost", -1);
  draft.put("missions", id, {
    id,
    plannedUs: event.at_us,
    launchedUs: null,
    callsMax: integer(event, "calls"),
    costMax: cost < 0 ? null : cost,
    agents: [],
    tasks: [],
    membranes: [],
  });
}

function launched(draft: Draft, event: WireEvent, id: string): void {
  draft.patch("missions", id, {
    launchedUs: event.at_us,
    agents: texts(event, "agents"),
    tasks: texts(event, "tasks"),
    membranes: texts(event, "membranes"),
  });
}

/** What is there stays, and the limit counts anew where it had been met, or the result did not do. */
function reopened(draft: Draft, event: WireEvent, id: string): void {
  const task = draft.get("tasks", id);
  if (task === undefined) return;
  const last = task.marks.at(-1) ?? START;
  const iterationsBefore = countsAnew(last) ? last.iteration : last.before;
  const iterationsMax = task.iterationsMax - task.iterationsBefore + iterationsBefore;
  put(draft, id, { ended: "", reason: "", blockedBy: "", iterationsBefore, iterationsMax });
  mark(draft, event, id, { before: iterationsBefore, ...NO_END });
  if (draft.get("agents", task.agent)?.task === id) draft.patch("agents", task.agent, { iterationsMax });
}

/** An iteration as it was after an event of its run. */
function shared(one: Iteration, at: number): Iteration {
  return {
    ...one,
    ...(one.actedSeq > at && { artifact: "", isError: false, code: "" }),
    ...(one.judgedSeq > at && { passed: null, summary: "", void: "" }),
    actedSeq: 0,
    judgedSeq: 0,
  };
}

/**
 * A fork of a task's run is a task of its own, with the iterations of the history that it shares, and the end in
 * it: a fork from behind that says no other.
 */
function forked(draft: Draft, event: WireEvent, id: string): void {
  const origin = draft.get("tasks", text(event, "origin"));
  if (origin === undefined) return;
  const at = integer(event, "at");
  const { iteration, before, ...end } = origin.marks.findLast((one) => one.seq <= at) ?? START;
  put(draft, id, {
    ...origin,
    id,
    ended: end.ended,
    reason: end.reason,
    blockedBy: end.blockedBy,
    outputs: end.outputs,
    iteration,
    iterations: origin.iterations.filter((one) => one.n <= iteration).map((one) => shared(one, at)),
    iterationsBefore: before,
    iterationsMax: origin.iterationsMax - origin.iterationsBefore + before,
    marks: [{ ...end, iteration, before, seq: 0 }],
  });
  // It is what its agent works on now: the receipt that says so is in the history that it shares.
  if (origin.agent !== "")
    draft.put("agents", origin.agent, { ...draft.agent(origin.agent), runId: id, task: id, action: "" });
}

const TASK_FOLDS: Readonly<Record<string, Fold>> = {
  "task.created": defined,
  "task.changed": defined,
  "task.begun": begun,
  "task.blocked": blocked,
  "task.cancelled": cancelled,
  "task.reopened": wantedAgain,
  "output.judged": outputJudged,
  "decision.taken": decided,
  "decision.invalid": undecided,
  "decision.executed": acted,
  "task.evaluated": judged,
  "task.ended": ended,
  "mission.planned": planned,
  "mission.launched": launched,
  "run.reopened": reopened,
  "run.forked": forked,
};

/** After these, others that wait for the task may be blocked or free. */
const SETTLING: ReadonlySet<string> = new Set([
  "task.created",
  "task.changed",
  "task.cancelled",
  "task.reopened",
  "task.blocked",
  "output.judged",
  "task.ended",
  "run.reopened",
  "run.failed",
  "run.cancelled",
]);

/** Tasks and missions. Runs must have folded the event before, because a task's status follows its run's. */
export function foldTask(draft: Draft, event: WireEvent): void {
  const [, id] = splitStream(event.stream);
  TASK_FOLDS[event.kind]?.(draft, event, id);
  follow(draft, id);
  if (SETTLING.has(event.kind)) settle(draft, text(event, "task", id));
}

function follow(draft: Draft, id: string): void {
  const task = draft.get("tasks", id);
  const run = draft.get("runs", id);
  if (task === undefined || run === undefined) return;
  const status = taskStatus(task.ended, run.status);
  if (status !== task.status) draft.put("tasks", id, { ...task, status });
}
