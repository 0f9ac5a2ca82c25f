/** What the screen shows, as rows of the server. Values are never changed in place: compare by identity. */

export const RUN_STATUSES = [
  "pending",
  "running",
  "paused",
  "waiting",
  "waiting_approval",
  "unknown_outcome",
  "budget_exhausted",
  "completed",
  "failed",
  "cancelled",
] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

const FINAL: ReadonlySet<RunStatus> = new Set(["completed", "failed", "cancelled"]);

/** Whether a run has ended for good (a failed one until somebody retries it); the others can go on. */
export function isFinal(status: RunStatus): boolean {
  return FINAL.has(status);
}

/** A goal whose run has ended stands as its tasks do: without what is missing, it is blocked. */
export type GoalStatus = RunStatus | "blocked";

export type TaskStatus = "pending" | "active" | "blocked" | "done" | "failed" | "cancelled";

export interface Run {
  readonly id: string;
  readonly loop: string;
  readonly agent: string;
  readonly model: string;
  readonly goal: string;
  readonly parent: string;
  readonly origin: string;
  /** The fork as which it goes on, since its code had changed; "" for all others. */
  readonly successor: string;
  readonly status: RunStatus;
  readonly reason: string;
  /** The most that the step could have cost that a limit of dollars refused last. */
  readonly askedMicrousd: number;
  readonly startedUs: number;
  readonly endedUs: number | null;
  readonly cycles: number;
  readonly spend: Spend;
  /** Of the newest request that was answered, as the provider counted. */
  readonly promptTokens: number;
  readonly promptCachedTokens: number;
  /** Messages of the newest failure, as far as they are small. */
  readonly message: string;
  readonly lastKind: string;
  readonly lastPosition: number;
  readonly lastUs: number;
  /** The step at work: `model: gpt` or the name of a tool; "" if none. */
  readonly doing: string;
  /** When that began; 0 if nothing is at work. */
  readonly doingUs: number;
  /** Tries of the model call at work that have failed, oldest first. */
  readonly failedTries: readonly FailedTry[];
  readonly waits: ReadonlySet<string>;
}

/** A try of a model call that failed in a passing way. */
export interface FailedTry {
  readonly code: string;
  readonly atUs: number;
  /** How long the next one waits. */
  readonly waitMs: number;
  /** Its number, from 1; 0 for a call that its process took along. */
  readonly attempt: number;
  /** The tries that the policy allows; 0 if the event does not say. */
  readonly attemptsMax: number;
}

/** An agent: an artifact of kind `agent`, or whoever runs are named after. */
export interface Agent {
  readonly id: string;
  readonly mission: string;
  readonly name: string;
  readonly role: string;
  /** Version of its artifact; 0 if it has none. */
  readonly version: number;
  readonly deleted: boolean;
  /** The newest run (for an agent of a mission: its newest task). */
  readonly runId: string;
  readonly task: string;
  readonly action: string;
  readonly iteration: number;
  readonly iterationsMax: number;
  readonly steering: string;
  readonly spend: Spend;
  readonly lastUs: number;
}

export interface Task {
  readonly id: string;
  readonly mission: string;
  readonly goal: string;
  readonly criteria: string;
  readonly agent: string;
  readonly parent: string;
  readonly status: TaskStatus;
  /** What its loop said at its end; "" while it works. */
  readonly ended: string;
  readonly reason: string;
  readonly blockedBy: string;
  readonly iteration: number;
  /** The last that is allowed, those before it was tried again included. */
  readonly iterationsMax: number;
  /** The iteration after which the limit counts. */
  readonly iterationsBefore: number;
  /** How far its loop was at events of its run, oldest first: forks begin with one of these. */
  readonly marks: readonly Mark[];
  readonly dependsOn: readonly string[];
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly iterations: readonly Iteration[];
}

/** The progress of a task's loop. */
export interface Mark {
  readonly seq: number;
  readonly iteration: number;
  readonly before: number;
  /** What the loop itself said at its end, whatever people have said since. */
  readonly ended: string;
  readonly reason: string;
  readonly blockedBy: string;
  readonly outputs: readonly string[];
}

export interface Iteration {
  readonly n: number;
  readonly position: number;
  readonly atUs: number;
  readonly action: string;
  readonly tool: string;
  readonly reason: string;
  readonly repeats: number;
  readonly steering: string;
  /** Seq of the event that says what came of it: a fork before that does not know it. */
  readonly actedSeq: number;
  readonly artifact: string;
  readonly isError: boolean;
  readonly code: string;
  readonly judgedSeq: number;
  /** null until it was judged. */
  readonly passed: boolean | null;
  readonly summary: string;
  readonly void: string;
}

export interface Artifact {
  readonly id: string;
  readonly kind: string;
  readonly title: string;
  readonly version: number;
  readonly media: string;
  readonly sizeBytes: number;
  readonly owner: string;
  readonly creator: string;
  readonly mission: string;
  readonly runId: string;
  readonly derivedFrom: readonly string[];
  /** Ids of the membranes whose members may read it. */
  readonly membranes: readonly string[];
  readonly priceRead: number;
  readonly deleted: boolean;
  readonly createdUs: number;
  readonly changedUs: number;
}

export interface Membrane {
  readonly id: string;
  readonly mission: string;
  readonly name: string;
  readonly version: number;
  readonly members: ReadonlySet<string>;
  readonly shared: ReadonlySet<string>;
  readonly deleted: boolean;
}

export type EdgeKind = "read" | "wrote" | "invoked" | "sold" | "delegated" | "depends";

export interface Edge {
  readonly id: string;
  readonly kind: EdgeKind;
  readonly source: string;
  readonly target: string;
  readonly count: number;
  readonly lastPosition: number;
  readonly lastUs: number;
}

export interface Approval {
  /** `run#key`. */
  readonly id: string;
  readonly runId: string;
  readonly key: string;
  readonly question: string;
  readonly details: Readonly<Record<string, unknown>>;
  readonly askedUs: number;
  readonly expiresUs: number | null;
  /** "" while it waits. */
  readonly decision: string;
  readonly by: string;
}

export interface Mission {
  readonly id: string;
  readonly plannedUs: number;
  readonly launchedUs: number | null;
  readonly callsMax: number;
  readonly costMax: number | null;
  readonly agents: readonly string[];
  readonly tasks: readonly string[];
  readonly membranes: readonly string[];
}

export interface Spend {
  readonly microusd: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** Calls whose price nobody knows. */
  readonly unpriced: number;
  readonly calls: number;
}

export function plus(spend: Spend, more: Partial<Spend>): Spend {
  return {
    microusd: spend.microusd + (more.microusd ?? 0),
    inputTokens: spend.inputTokens + (more.inputTokens ?? 0),
    cachedTokens: spend.cachedTokens + (more.cachedTokens ?? 0),
    outputTokens: spend.outputTokens + (more.outputTokens ?? 0),
    unpriced: spend.unpriced + (more.unpriced ?? 0),
    calls: spend.calls + (more.calls ?? 0),
  };
}

export interface Costs {
  readonly total: Spend;
  readonly byModel: ReadonlyMap<string, Spend>;
  /** Held for calls in flight, in micro-dollars, by `run key`. */
  readonly held: ReadonlyMap<string, number>;
  /** Caps in micro-dollars by scope (`tenant`, `run:x`, `agent:x`, `membrane:x`). */
  readonly caps: ReadonlyMap<string, number>;
}

export interface Graph {
  /** Of the newest event that it knows of; 0 before the first. */
  readonly position: number;
  readonly atUs: number;
  readonly events: number;
  readonly agents: ReadonlyMap<string, Agent>;
  readonly tasks: ReadonlyMap<string, Task>;
  readonly artifacts: ReadonlyMap<string, Artifact>;
  readonly membranes: ReadonlyMap<string, Membrane>;
  readonly missions: ReadonlyMap<string, Mission>;
  readonly edges: ReadonlyMap<string, Edge>;
  readonly runs: ReadonlyMap<string, Run>;
  readonly approvals: ReadonlyMap<string, Approval>;
  readonly costs: Costs;
}

export const NOTHING_SPENT: Spend = {
  microusd: 0,
  inputTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  unpriced: 0,
  calls: 0,
};

export const EMPTY_GRAPH: Graph = {
  position: 0,
  atUs: 0,
  events: 0,
  agents: new Map(),
  tasks: new Map(),
  artifacts: new Map(),
  membranes: new Map(),
  missions: new Map(),
  edges: new Map(),
  runs: new Map(),
  approvals: new Map(),
  costs: { total: NOTHING_SPENT, byModel: new Map(), held: new Map(), caps: new Map() },
};
