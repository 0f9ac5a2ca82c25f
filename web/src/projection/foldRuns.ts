import type { Draft } from "./draft";
import { flag, integer, parsed, record, splitStream, text, type WireEvent } from "./event";
import { NOTHING_SPENT, type Run, type RunStatus, RUN_STATUSES } from "./graph";

const IDLE = { doing: "", doingUs: 0, failedTries: [] } as const;

type Fold = (draft: Draft, event: WireEvent, runId: string) => void;

const FINAL: ReadonlySet<RunStatus> = new Set(["completed", "failed", "cancelled"]);

/** Whether a run can go on; the others have ended for good (a failed one until somebody retries it). */
export function isFinal(status: RunStatus): boolean {
  return FINAL.has(status);
}

/** What steps report: an ended run stays ended, a paused one paused. As the server's view does it. */
function setStatus(draft: Draft, id: string, status: RunStatus, reason = ""): void {
  const run = draft.get("runs", id);
  if (run === undefined || FINAL.has(run.status) || run.status === "paused") return;
  draft.put("runs", id, { ...run, status, reason });
}

/** What a person decides about the whole run; only an end is stronger. */
function setByCommand(draft: Draft, id: string, status: RunStatus, reason = ""): void {
  const run = draft.get("runs", id);
  if (run === undefined || FINAL.has(run.status)) return;
  draft.put("runs", id, { ...run, status, reason });
}

function end(status: RunStatus): Fold {
  return (draft, event, id) => {
    const run = draft.get("runs", id);
    if (run === undefined || FINAL.has(run.status)) return;
    draft.put("runs", id, {
      ...run,
      status,
      reason: text(event, "reason"),
      message: event.texts["message"] ?? event.texts["note"] ?? "",
      endedUs: event.at_us,
      ...IDLE,
    });
  };
}

function driven(event: WireEvent): RunStatus {
  return flag(event, "queued") ? "pending" : "running";
}

function blank(event: WireEvent, id: string): Run {
  return {
    id,
    loop: "",
    agent: "",
    model: "",
    goal: "",
    parent: "",
    origin: "",
    successor: "",
    status: "running",
    reason: "",
    askedMicrousd: 0,
    startedUs: event.at_us,
    endedUs: null,
    cycles: 0,
    spend: NOTHING_SPENT,
    promptTokens: 0,
    promptCachedTokens: 0,
    message: "",
    lastKind: event.kind,
    lastPosition: event.position,
    lastUs: event.at_us,
    doing: "",
    doingUs: 0,
    failedTries: [],
    waits: new Set(),
  };
}

function started(draft: Draft, event: WireEvent, id: string): void {
  const run: Run = {
    ...blank(event, id),
    loop: text(event, "loop"),
    agent: text(event, "agent"),
    model: text(event, "model"),
    goal: event.texts["goal"] ?? "",
    parent: text(event, "parent"),
  };
  draft.put("runs", id, run);
  if (run.agent === "") return;
  draft.put("agents", run.agent, { ...draft.agent(run.agent), runId: id, lastUs: event.at_us });
  const parent = draft.get("runs", run.parent);
  if (parent !== undefined && parent.agent !== "") draft.link("delegated", parent.agent, run.agent, event);
}

function forked(draft: Draft, event: WireEvent, id: string): void {
  const origin = text(event, "origin");
  const before = draft.get("runs", origin);
  draft.put("runs", id, {
    ...blank(event, id),
    loop: before?.loop ?? "",
    agent: before?.agent ?? "",
    model: before?.model ?? "",
    goal: before?.goal ?? "",
    origin,
    status: "pending",
  });
}

function resumed(draft: Draft, event: WireEvent, id: string): void {
  const status = driven(event);
  const asked = [...draft.all("approvals")].find((one) => one.runId === id && one.decision === "");
  const waits = draft.get("runs", id)?.waits;
  if (status === "pending") setByCommand(draft, id, status);
  else if (asked !== undefined) setByCommand(draft, id, "waiting_approval", asked.key);
  else if (waits !== undefined && waits.size > 0) setByCommand(draft, id, "waiting");
  else setByCommand(draft, id, status);
}

/** Its code had changed: the run is over, and what it was about is done by its fork. */
function drifted(draft: Draft, event: WireEvent, id: string): void {
  end("cancelled")(draft, event, id);
  if (draft.get("runs", id)?.status !== "cancelled") return;
  draft.patch("runs", id, { reason: "drifted", successor: text(event, "fork") });
}

function asked(draft: Draft, event: WireEvent, id: string): void {
  const key = text(event, "key");
  const question = parsed(event, "question");
  const expires = integer(event, "expires_us", -1);
  draft.put("approvals", `${id}#${key}`, {
    id: `${id}#${key}`,
    runId: id,
    key,
    question:
      typeof question["question"] === "string" ? question["question"] : (event.texts["question"] ?? ""),
    details: record(question["details"]),
    askedUs: event.at_us,
    expiresUs: expires < 0 ? null : expires,
    decision: "",
    by: "",
  });
  setStatus(draft, id, "waiting_approval", key);
}

function answered(draft: Draft, event: WireEvent, id: string): void {
  draft.patch("approvals", `${id}#${text(event, "key")}`, {
    decision: text(event, "decision"),
    by: event.actor,
  });
  setStatus(draft, id, driven(event));
}

function suspended(draft: Draft, event: WireEvent, id: string): void {
  const status = RUN_STATUSES.find((known) => known === text(event, "status"));
  if (status !== undefined) setStatus(draft, id, status, text(event, "reason"));
  draft.patch("runs", id, IDLE);
}

function waiting(on: boolean): Fold {
  return (draft, event, id) => {
    const run = draft.get("runs", id);
    if (run === undefined) return;
    const waits = new Set(run.waits);
    if (on) waits.add(text(event, "key"));
    else waits.delete(text(event, "key"));
    draft.put("runs", id, { ...run, waits });
    if (on) setStatus(draft, id, "waiting", text(event, "name", "timer"));
    else setStatus(draft, id, "running");
  };
}

function doing(draft: Draft, id: string, what: string, event: WireEvent): void {
  draft.patch("runs", id, { ...IDLE, doing: what, doingUs: event.at_us });
}

function idle(draft: Draft, _event: WireEvent, id: string): void {
  draft.patch("runs", id, IDLE);
}

function attempted(draft: Draft, event: WireEvent, id: string): void {
  billed(draft, event, id);
  const tries = draft.get("runs", id)?.failedTries ?? [];
  const failed = {
    code: text(event, "code"),
    atUs: event.at_us,
    waitMs: integer(event, "wait_ms"),
    attempt: integer(event, "attempt"),
    attemptsMax: integer(event, "attempts_max"),
  };
  draft.patch("runs", id, { failedTries: [...tries, failed] });
}

function holdOf(event: WireEvent, runId: string): number {
  const counts = event.data["counts"];
  if (!Array.isArray(counts)) return 0;
  for (const count of counts as unknown[]) {
    if (!Array.isArray(count)) continue;
    const [scope, unit, reserve] = count as unknown[];
    if (scope === `run:${runId}` && unit === "usd" && typeof reserve === "number")
      return Math.max(0, reserve);
  }
  return 0;
}

function hold(draft: Draft, event: WireEvent, id: string, amount: number): void {
  const name = `${id} ${text(event, "key")}`;
  if (amount === 0 && !draft.costs.held.has(name)) return;
  const held = new Map(draft.costs.held);
  if (amount > 0) held.set(name, amount);
  else held.delete(name);
  draft.setCosts({ held });
}

function modelRequested(draft: Draft, event: WireEvent, id: string): void {
  const model = text(event, "model");
  if (model !== "") draft.patch("runs", id, { model }); // not every beginning names one, and a run may ask several
  hold(draft, event, id, holdOf(event, id));
  doing(draft, id, `model ${model}`, event);
}

function modelCompleted(draft: Draft, event: WireEvent, id: string): void {
  const unpriced = flag(event, "unpriced");
  hold(draft, event, id, 0);
  draft.patch("runs", id, {
    ...IDLE,
    promptTokens: integer(event, "input_tokens"),
    promptCachedTokens: integer(event, "cached_input_tokens"),
  });
  draft.spend(id, draft.get("runs", id)?.model ?? "", {
    calls: 1,
    microusd: unpriced ? 0 : integer(event, "cost"),
    inputTokens: integer(event, "input_tokens"),
    cachedTokens: integer(event, "cached_input_tokens"),
    outputTokens: integer(event, "output_tokens"),
    unpriced: unpriced ? 1 : 0,
  });
}

function modelFailed(draft: Draft, event: WireEvent, id: string): void {
  hold(draft, event, id, 0);
  idle(draft, event, id);
  billed(draft, event, id);
}

/** What a provider bills for a call without a reply. */
function billed(draft: Draft, event: WireEvent, id: string): void {
  const cost = integer(event, "cost");
  if (cost > 0) draft.spend(id, draft.get("runs", id)?.model ?? "", { microusd: cost });
}

/** A prompt that holds an artifact: its agent has read it. */
function assembled(draft: Draft, event: WireEvent, id: string): void {
  const agent = draft.get("runs", id)?.agent ?? "";
  const parts = event.data["parts"];
  if (agent === "" || !Array.isArray(parts)) return;
  const seen = new Set<string>();
  for (const part of parts as unknown[]) {
    const sources = record(part)["src"];
    if (!Array.isArray(sources)) continue;
    for (const source of sources as unknown[]) {
      const artifact = typeof source === "string" ? (source.split(/[@#]/, 1)[0] ?? "") : "";
      if (seen.has(artifact) || draft.get("artifacts", artifact) === undefined) continue;
      seen.add(artifact);
      draft.link("read", artifact, agent, event);
    }
  }
}

function reconciled(draft: Draft, event: WireEvent, id: string): void {
  setStatus(draft, id, driven(event));
}

function exhausted(draft: Draft, event: WireEvent, id: string): void {
  const unit = text(event, "unit");
  setStatus(draft, id, "budget_exhausted", text(event, "reason") || `${unit} of ${text(event, "scope")}`);
  draft.patch("runs", id, { askedMicrousd: unit === "usd" ? integer(event, "asked") : 0 });
}

function reopened(draft: Draft, _event: WireEvent, id: string): void {
  draft.patch("runs", id, { status: "pending", reason: "", endedUs: null, message: "" });
}

export const RUN_FOLDS: Readonly<Record<string, Fold>> = {
  "run.started": started,
  "run.forked": forked,
  "run.resumed": resumed,
  "run.paused": (draft, event, id) =>
    setByCommand(draft, id, "paused", flag(event, "stopped") ? "stopped" : ""),
  "run.suspended": suspended,
  "run.exhausted": exhausted,
  "run.completed": end("completed"),
  "run.failed": end("failed"),
  "run.cancelled": end("cancelled"),
  "run.drifted": drifted,
  "run.reopened": reopened,
  "approval.requested": asked,
  "approval.given": answered,
  "wait.started": waiting(true),
  "wait.ended": waiting(false),
  "cycle.completed": (draft, event, id) => draft.patch("runs", id, { cycles: integer(event, "cycle") }),
  "context.assembled": assembled,
  "model.requested": modelRequested,
  "model.completed": modelCompleted,
  "model.failed": modelFailed,
  "model.attempted": attempted,
  "tool.requested": (draft, event, id) => doing(draft, id, text(event, "name"), event),
  "tool.retried": (draft, _event, id) => setStatus(draft, id, "running"),
  "tool.completed": idle,
  "tool.charged": (draft, event, id) => draft.spend(id, "", { microusd: integer(event, "cost") }),
  "tool.unresolved": (draft, event, id) => setStatus(draft, id, "unknown_outcome", text(event, "key")),
  "tool.reconciled": reconciled,
};

/** Any event of a run's stream: also one of a kind that nobody here knows moves its last sign of life. */
export function foldRun(draft: Draft, event: WireEvent): void {
  const [, id] = splitStream(event.stream);
  RUN_FOLDS[event.kind]?.(draft, event, id);
  const run = draft.get("runs", id);
  if (run === undefined) return;
  draft.put("runs", id, {
    ...run,
    lastKind: event.kind,
    lastPosition: event.position,
    lastUs: event.at_us,
  });
  if (run.agent !== "") draft.patch("agents", run.agent, { lastUs: event.at_us });
}
