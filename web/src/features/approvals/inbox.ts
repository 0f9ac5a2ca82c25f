import type { Shape } from "@/client/types";
import { shortName } from "@/projection/event";
import type { Graph, Run } from "@/projection/graph";
import { waitingApprovals } from "@/projection/vitals";

/** Something that only a person can settle. */
export interface Matter {
  /** `run#step`. */
  readonly id: string;
  readonly kind: "question" | "launch" | "outcome";
  readonly runId: string;
  readonly step: string;
  /** Who asks: the agent, else the run. */
  readonly who: string;
  readonly agent: string;
  /** Whether only a program of somebody's own drives the run: no worker can. */
  readonly ownCode: boolean;
  /** What is asked, as far as it is known yet. */
  readonly question: string;
  readonly tool: string;
  /** What the tool would be called with; undefined where nothing can be edited. */
  readonly args: unknown;
  readonly details: unknown;
  /** Whether all of it is here: events bring long texts cut, and nobody edits what is cut. */
  readonly isWhole: boolean;
  readonly expiresUs: number | null;
}

export type Asked = Shape<"Approval">;

/** Whether a question of a mission is the one about its launch. */
function isLaunch(graph: Graph, runId: string, step: string): boolean {
  return graph.runs.get(runId)?.loop === "mission" && /^launch(\/|$)/.test(step);
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}

/** All that waits for a person, the oldest first; `asked` is what the server says of the questions in full. */
export function mattersOf(graph: Graph, asked: readonly Asked[]): readonly Matter[] {
  const full = new Map(asked.map((one) => [`${one.run_id}#${one.step}`, one]));
  const questions = waitingApprovals(graph).map((approval): Matter => {
    const told = full.get(approval.id);
    const details = told?.details ?? approval.details;
    const tool = record(details)["tool"];
    return {
      ...whoOf(graph, approval.runId),
      id: approval.id,
      kind: isLaunch(graph, approval.runId, approval.key) ? "launch" : "question",
      runId: approval.runId,
      step: approval.key,
      question: questionOf(told?.question) || readable(approval.question) || approval.key,
      tool: typeof tool === "string" ? tool : "",
      args: record(details)["arguments"],
      details,
      isWhole: told !== undefined,
      expiresUs: approval.expiresUs,
    };
  });
  const outcomes = [...graph.runs.values()]
    .filter((run) => run.status === "unknown_outcome")
    .map((run): Matter => ({
      ...whoOf(graph, run.id),
      id: `${run.id}#${run.reason}`,
      kind: "outcome",
      runId: run.id,
      step: run.reason,
      question: "A call was interrupted, and nobody knows whether it took effect",
      tool: "",
      args: undefined,
      details: null,
      isWhole: true,
      expiresUs: null,
    }));
  return [...questions, ...outcomes];
}

function questionOf(question: unknown): string {
  return typeof question === "string" ? question : "";
}

/** A question that was cut in the event is JSON without an end: the server is asked for the whole. */
function readable(question: string): string {
  return question.startsWith("{") ? "" : question;
}

/** A run goes on with its root; one without a loop is a function of somebody's own. */
function isOwnCode(graph: Graph, run: Run | undefined): boolean {
  let root = run;
  const seen = new Set<string>();
  while (root !== undefined && root.parent !== "" && !seen.has(root.id)) {
    seen.add(root.id);
    const above = graph.runs.get(root.parent);
    if (above === undefined) break;
    root = above;
  }
  return root !== undefined && root.loop === "";
}

function whoOf(graph: Graph, runId: string): Pick<Matter, "who" | "agent" | "ownCode"> {
  const run = graph.runs.get(runId);
  const agent = run?.agent ?? "";
  const name = graph.agents.get(agent)?.name;
  return { agent, ownCode: isOwnCode(graph, run), who: name ?? (run?.goal ? run.goal : shortName(runId)) };
}

/** What a matter is about, in one line: "analyst asks: call send_email". */
export function headline(matter: Matter): string {
  if (matter.kind === "launch") return "The plan is ready: launch it?";
  if (matter.kind === "outcome") return matter.question;
  if (matter.tool !== "") return `asks to call ${matter.tool}`;
  return `asks: ${matter.question}`;
}

/** Return True for a question in words, which is answered in words; a call of a tool is allowed or not. */
export function isOpenQuestion(matter: Matter): boolean {
  return matter.kind === "question" && matter.tool === "";
}

/** Arguments as a person edits them. */
export function shown(args: unknown): string {
  return JSON.stringify(args ?? null, null, 2);
}

export interface ReadArguments {
  readonly value: unknown;
  /** What is wrong and what to do; "" if nothing is. */
  readonly error: string;
}

/** What was typed, as JSON of the same form as what was asked for. */
export function readArguments(text: string, original: unknown): ReadArguments {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { value: null, error: `This is no JSON yet: ${error instanceof Error ? error.message : ""}` };
  }
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject) return { value: null, error: "Arguments are an object: { … }." };
  const wrong = Object.entries(record(original)).find(
    ([name, before]) =>
      name in record(value) && kindOf(record(value)[name]) !== kindOf(before) && before !== null,
  );
  if (wrong !== undefined)
    return { value: null, error: `"${wrong[0]}" was ${kindOf(wrong[1])}; it must stay that.` };
  return { value, error: "" };
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (value === null) return "nothing";
  const kind = typeof value;
  return kind === "object" ? "an object" : kind === "boolean" ? "true or false" : `a ${kind}`;
}
