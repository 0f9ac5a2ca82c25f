import { record } from "./event";

/** One event of a chat's run, as `/sessions/{id}/events` tells it. */
export interface RunEvent {
  /** null for a piece of the reply: it is not stored. */
  readonly seq: number | null;
  readonly type: string;
  readonly at_us: number | null;
  readonly [field: string]: unknown;
}

export type OperationStatus = "planned" | "running" | "done" | "skipped" | "error" | "aborted";

export interface Operation {
  readonly id: string;
  readonly hook: string;
  readonly kind: string;
  readonly required: boolean;
  readonly dependsOn: readonly string[];
  readonly status: OperationStatus;
  /** Why it was skipped, by its code. */
  readonly reason: string;
  readonly code: string;
  readonly message: string;
  readonly startedUs: number | null;
  readonly endedUs: number | null;
  /** What came of each of its effects. */
  readonly effects: readonly Effect[];
}

export interface Effect {
  readonly type: string;
  readonly status: string;
  readonly tag: string;
  readonly code: string;
}

/** How far one turn of a chat is: a fold of its run's events. */
export interface Turn {
  /** Of the newest stored event; a reader that comes back goes on after it. */
  readonly seq: number;
  readonly phase: string;
  readonly operations: readonly Operation[];
  /** The reply as far as it is written. */
  readonly text: string;
  /** Characters of it, as the server counts them. */
  readonly length: number;
  /** What the model thinks before it, as far as its provider shows that. */
  readonly reasoning: string;
  /** Characters of that, as the server counts them. */
  readonly reasoningLength: number;
  readonly isWriting: boolean;
  readonly finishReason: string;
  /** `approval`, `resume`, `budget`, `outcome` or `worker`; "" if it waits for nobody. */
  readonly waitsFor: string;
  /** "" until the run ended. */
  readonly status: string;
  readonly message: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly calls: number;
  /** A piece of the reply is missing: what is written so far has to be asked for again. */
  readonly isTorn: boolean;
}

export const NEW_TURN: Turn = {
  seq: 0,
  phase: "",
  operations: [],
  text: "",
  length: 0,
  reasoning: "",
  reasoningLength: 0,
  isWriting: false,
  finishReason: "",
  waitsFor: "",
  status: "",
  message: "",
  inputTokens: 0,
  outputTokens: 0,
  calls: 0,
  isTorn: false,
};

function word(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function count(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

function words(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}

export function isRunEvent(value: unknown): value is RunEvent {
  const event = record(value);
  return typeof event["type"] === "string" && (event["seq"] === null || Number.isSafeInteger(event["seq"]));
}

export function foldTurn(turn: Turn, events: readonly RunEvent[]): Turn {
  return events.reduce(next, turn);
}

function next(turn: Turn, event: RunEvent): Turn {
  if (event.type === "main_llm.delta") return written(turn, word(event["text"]), count(event["offset"]));
  if (event.type === "main_llm.reasoning") return thought(turn, word(event["text"]), count(event["offset"]));
  if (event.seq === null || event.seq <= turn.seq) return turn;
  return { ...told(turn, event), seq: event.seq };
}

function told(turn: Turn, event: RunEvent): Turn {
  switch (event.type) {
    case "run.phase_changed":
      return phased(turn, event);
    case "operation.started":
      return changed(turn, event, { status: "running", startedUs: event.at_us });
    case "operation.finished":
      return changed(turn, event, {
        status: finished(word(event["status"])),
        reason: word(event["reason"]),
        code: word(event["code"]),
        message: word(event["message"]),
        endedUs: event.at_us,
      });
    case "commit.reported":
      return reported(turn, event);
    case "main_llm.started":
      return {
        ...turn,
        text: "",
        length: 0,
        reasoning: "",
        reasoningLength: 0,
        isWriting: true,
        finishReason: "",
        isTorn: false,
        calls: turn.calls + 1,
      };
    case "main_llm.finished":
      return {
        ...spent(turn, event),
        isWriting: false,
        finishReason: word(event["finish_reason"]),
        isTorn: false,
      };
    case "model.requested":
      return { ...turn, calls: turn.calls + 1 };
    case "model.completed":
      return spent(turn, event);
    case "approval.requested":
      return { ...turn, waitsFor: "approval" };
    case "approval.given":
    case "run.resumed":
      return { ...turn, waitsFor: "" };
    case "run.paused":
      return { ...turn, waitsFor: "resume" };
    case "run.exhausted":
      return { ...turn, waitsFor: "budget" };
    case "run.suspended":
      return { ...turn, waitsFor: suspended(word(event["status"])) };
    case "run.reopened":
      return { ...turn, status: "", message: "", waitsFor: "" };
    case "run.finished":
      return ended(turn, event);
    default:
      return turn;
  }
}

/** A run that was left while it worked goes on by itself as soon as somebody drives it. */
function suspended(status: string): string {
  const reasons: Readonly<Record<string, string>> = {
    waiting_approval: "approval",
    paused: "resume",
    budget_exhausted: "budget",
    unknown_outcome: "outcome",
  };
  return reasons[status] ?? "worker";
}

function written(turn: Turn, piece: string, offset: number): Turn {
  if (offset > turn.length) return { ...turn, isTorn: true };
  const { text, length } = added(turn.text, turn.length, piece, offset);
  return { ...turn, text, length, isWriting: true, isTorn: false };
}

function thought(turn: Turn, piece: string, offset: number): Turn {
  if (offset > turn.reasoningLength) return { ...turn, isTorn: true };
  const { text, length } = added(turn.reasoning, turn.reasoningLength, piece, offset);
  return { ...turn, reasoning: text, reasoningLength: length, isWriting: true, isTorn: false };
}

/** Characters are counted as the server counts them: an emoji is one. */
function added(text: string, length: number, piece: string, offset: number) {
  const before = offset === length ? text : [...text].slice(0, offset).join("");
  return { text: before + piece, length: offset + [...piece].length };
}

function phased(turn: Turn, event: RunEvent): Turn {
  const phase = word(event["phase"]);
  const plan = event["plan"];
  if (!Array.isArray(plan)) return { ...turn, phase };
  const operations = plan.map(record).map((one): Operation => {
    const skipped = word(one["skipped"]);
    return {
      id: word(one["operation_id"]),
      hook: word(one["hook"]),
      kind: word(one["kind"]),
      required: one["required"] === true,
      dependsOn: words(one["depends_on"]),
      status: skipped === "" ? "planned" : "skipped",
      reason: skipped,
      code: "",
      message: "",
      startedUs: null,
      endedUs: null,
      effects: [],
    };
  });
  return { ...turn, phase, operations };
}

function finished(status: string): OperationStatus {
  return status === "done" || status === "skipped" || status === "aborted" ? status : "error";
}

function changed(turn: Turn, event: RunEvent, fields: Partial<Operation>): Turn {
  const [id, hook] = [word(event["operation_id"]), word(event["hook"])];
  return {
    ...turn,
    operations: turn.operations.map((one) =>
      one.id === id && one.hook === hook ? { ...one, ...fields } : one,
    ),
  };
}

function reported(turn: Turn, event: RunEvent): Turn {
  const hook = word(event["hook"]);
  const reports = Array.isArray(event["reports"]) ? event["reports"].map(record) : [];
  return {
    ...turn,
    operations: turn.operations.map((one) => {
      if (one.hook !== hook) return one;
      const effects = reports
        .filter((report) => report["operation_id"] === one.id)
        .map((report) => ({
          type: word(report["type"]),
          status: word(report["status"]),
          tag: word(report["tag"]),
          code: word(report["code"]),
        }));
      return { ...one, effects };
    }),
  };
}

function spent(turn: Turn, event: RunEvent): Turn {
  return {
    ...turn,
    inputTokens: turn.inputTokens + count(event["input_tokens"]),
    outputTokens: turn.outputTokens + count(event["output_tokens"]),
  };
}

/** What had not ended will not: a run that is over leaves nothing at work. */
function ended(turn: Turn, event: RunEvent): Turn {
  return {
    ...turn,
    status: word(event["status"]),
    message: word(event["message"]) || word(event["note"]),
    isWriting: false,
    waitsFor: "",
    isTorn: false,
    operations: turn.operations.map((one) =>
      one.status === "running" ? { ...one, status: "aborted" } : one,
    ),
  };
}
