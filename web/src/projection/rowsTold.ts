import { counted as howMany } from "./counted";
import { flag, integer, parsed, record, shortName, text, texts, type WireEvent } from "./event";
import { KIND_WORDS } from "./kindWords";
import type { RowGroup, RowWorld } from "./rows";

type Told = readonly [group: RowGroup, word: string, text: string, isFailure?: boolean];
type Teller = (event: WireEvent, world: RowWorld) => Told;

function said(...parts: readonly (string | number | false | undefined)[]): string {
  return parts.filter((part) => part !== "" && part !== false && part !== undefined).join(" · ");
}

/** `[scope, unit, reserve, use]` of an event, as far as they are well-formed. */
export function countsOf(event: WireEvent): readonly (readonly [string, string, number, number])[] {
  const counts = event.data["counts"];
  if (!Array.isArray(counts)) return [];
  return (counts as unknown[]).flatMap((one) => {
    if (!Array.isArray(one)) return [];
    const [scope, unit, reserve, use] = one as unknown[];
    if (typeof scope !== "string" || typeof unit !== "string") return [];
    return [[scope, unit, Number(reserve) || 0, Number(use) || 0] as const];
  });
}

/** The counter that tells most about an event: money before tokens, the run's before that of others. */
function counted(event: WireEvent, unit: string): readonly [string, string, number, number] | undefined {
  const all = countsOf(event).filter((one) => one[1] === unit);
  return all.find((one) => one[0].startsWith("run:")) ?? all[0];
}

function held(event: WireEvent, world: RowWorld): Told {
  const usd = counted(event, "usd")?.[2] ?? 0;
  const tokens = counted(event, "tokens")?.[2] ?? 0;
  const hold =
    usd > 0
      ? `${world.money(usd)} held`
      : tokens > 0
        ? `${tokens.toLocaleString("en-US")} tokens held`
        : "nothing held";
  const model = text(event, "model");
  return ["money", "reserve", said(hold, model !== "" && `model ${model}`, text(event, "key"))];
}

function paid(event: WireEvent, world: RowWorld): Told {
  const cached = integer(event, "cached_input_tokens");
  const tokens = `${integer(event, "input_tokens").toLocaleString("en-US")} tokens in${
    cached > 0 ? ` (${cached.toLocaleString("en-US")} cached)` : ""
  }, ${integer(event, "output_tokens").toLocaleString("en-US")} out`;
  const about = flag(event, "estimated") ? "about " : "";
  const cost = flag(event, "unpriced")
    ? "price unknown"
    : `${about}${world.money(integer(event, "cost"))} paid`;
  return ["money", "settle", said(cost, tokens, text(event, "key"))];
}

function wrote(event: WireEvent): Told {
  const title = parsed(event, "metadata")["title"];
  const id = text(event, "id");
  const name = typeof title === "string" && title !== "" ? title : shortName(id);
  const kind = text(event, "kind");
  const what = said(
    `${name} v${integer(event, "version")}`,
    kind,
    `${integer(event, "size_bytes")} bytes`,
    id,
  );
  return [kind === "steering" ? "note" : "artifact", kind === "steering" ? "steering" : "artifact", what];
}

function judged(event: WireEvent): Told {
  const verdict = parsed(event, "verdict");
  const summary = typeof verdict["summary"] === "string" ? verdict["summary"] : "";
  const invalid = text(event, "void");
  const outcome = flag(event, "passed") ? "passed" : invalid === "" ? "not passed" : `void: ${invalid}`;
  return ["verdict", "evaluate", said(outcome, summary, `iteration ${integer(event, "iteration")}`)];
}

function acted(event: WireEvent): Told {
  const isError = flag(event, "is_error");
  return [
    "action",
    text(event, "action") || "action",
    said(text(event, "artifact"), isError && `failed: ${text(event, "code")}`, text(event, "step")) || "done",
    isError,
  ];
}

function asked(event: WireEvent): Told {
  const question = parsed(event, "question")["question"];
  return ["approval", "approval", typeof question === "string" ? question : (event.texts["question"] ?? "")];
}

function limited(event: WireEvent, world: RowWorld): Told {
  const unit = text(event, "unit");
  const cap = event.data["cap"];
  const most =
    typeof cap !== "number" ? `${unit}: no limit` : unit === "usd" ? world.money(cap) : `${cap} ${unit}`;
  return ["money", "limit", said(typeof cap === "number" ? `at most ${most}` : most, text(event, "scope"))];
}

const failed: Teller = (event) => [
  "run",
  "failed",
  said(text(event, "key"), text(event, "code") || text(event, "reason"), event.texts["message"]),
  true,
];

function ended(event: WireEvent): Told {
  const status = text(event, "status");
  return [
    "run",
    "task",
    said(status, text(event, "reason"), howMany(integer(event, "iterations"), "iteration")),
    status !== "done",
  ];
}

const TELLERS: Readonly<Record<string, Teller>> = {
  "decision.taken": (event) => [
    "decision",
    "decision",
    event.texts["decision"] ?? said(text(event, "action"), text(event, "tool")),
  ],
  "decision.invalid": (event) => ["decision", "decision", event.texts["mistakes"] ?? "no decision", true],
  "decision.executed": acted,
  "tool.requested": (event) => [
    "action",
    text(event, "undoes") === "" ? "use_tool" : "undo",
    `${text(event, "name")} ${event.texts["arguments"] ?? ""}`,
  ],
  "tool.completed": (event) => [
    "action",
    "result",
    said(event.texts["result"] ?? text(event, "artifact"), `${integer(event, "ms")} ms`),
    flag(event, "is_error"),
  ],
  "tool.refused": (event) => ["action", "refused", said(text(event, "name"), text(event, "code")), true],
  "tool.unresolved": (event) => [
    "action",
    "unknown",
    said(text(event, "key"), text(event, "code"), "nobody knows what it did"),
    true,
  ],
  "tool.reconciled": (event) => ["action", "settled", said(text(event, "key"), text(event, "answer"))],
  "tool.charged": (event, world) => [
    "money",
    "charge",
    said(world.money(integer(event, "cost")), text(event, "key")),
  ],
  "model.requested": held,
  "model.completed": paid,
  "model.failed": failed,
  "model.attempted": (event, world) => [
    "run",
    "again",
    said(
      text(event, "code"),
      integer(event, "cost") > 0 ? world.money(integer(event, "cost")) : "",
      `next try in ${integer(event, "wait_ms")} ms`,
      text(event, "key"),
    ),
  ],
  "step.failed": failed,
  "artifact.written": wrote,
  "artifact.deleted": (event) => ["artifact", "artifact", said("deleted", text(event, "id"))],
  "artifact.transferred": (event) => [
    "money",
    "transfer",
    said(text(event, "id"), `${text(event, "giver")} to ${text(event, "to")}`),
  ],
  "artifact.charged": (event) => [
    "money",
    "charge",
    said(text(event, "action"), text(event, "id"), text(event, "payer")),
  ],
  "artifact.invoked": (event) => [
    "action",
    "invoke",
    said(text(event, "id"), text(event, "outcome"), text(event, "caller")),
  ],
  "approval.requested": asked,
  "approval.given": (event) => ["approval", "approval", said(text(event, "decision"), text(event, "key"))],
  "task.evaluated": judged,
  "task.begun": (event) => [
    "run",
    "task",
    `begun, at most ${howMany(integer(event, "max_iterations"), "iteration")}`,
  ],
  "task.ended": ended,
  "task.blocked": (event) => [
    "run",
    "task",
    said("blocked", text(event, "task"), text(event, "reason"), text(event, "by")),
    true,
  ],
  "task.created": (event) => ["run", "task", said("created", text(event, "task"), text(event, "agent"))],
  "mission.planned": (event, world) => [
    "run",
    "plan",
    said(
      `about ${howMany(integer(event, "calls"), "call")}`,
      "cost" in event.data &&
        `${flag(event, "is_limit") ? "at most" : "about"} ${world.money(integer(event, "cost"))}`,
    ),
  ],
  "mission.launched": () => ["run", "plan", "launched"],
  "run.started": (event) => ["run", "run", said("started", event.texts["goal"], text(event, "model"))],
  "run.forked": (event) => ["run", "run", `forked from ${text(event, "origin")} at ${integer(event, "at")}`],
  "run.completed": () => ["run", "run", "completed"],
  "run.failed": failed,
  "run.exhausted": (event) => [
    "run",
    "budget",
    said(`${text(event, "unit")} of ${text(event, "scope")}`, "limit reached"),
    true,
  ],
  "run.paused": (event) => [
    "run",
    "run",
    said(flag(event, "stopped") ? "stopped" : "paused", event.texts["note"]),
  ],
  "run.cancelled": (event) => ["run", "run", said("cancelled", event.texts["note"])],
  "run.resumed": () => ["run", "run", "goes on"],
  "run.drifted": (event) => [
    "run",
    "changed",
    said("its code has changed", text(event, "key"), `goes on as ${text(event, "fork")}`),
  ],
  "prompt.drifted": (event) => [
    "run",
    "changed",
    said("another prompt than was recorded", text(event, "section"), text(event, "key")),
  ],
  "version.recorded": (event) => [
    "run",
    "version",
    `version ${integer(event, "version")} of ${text(event, "change")}`,
  ],
  "compensation.planned": (event) => ["action", "undo", planned(event)],
  "tool.retried": (event) => ["action", "again", said("called again with the same key", text(event, "key"))],
  "tools.changed": () => ["bookkeeping", "tools", "its tools are others"],
  "wait.started": (event) => [
    "run",
    "wait",
    said(
      text(event, "name") === "" ? "waits for a time" : `waits for ${text(event, "name")}`,
      text(event, "key"),
    ),
  ],
  "wait.ended": (event) => ["run", "wait", said("goes on", text(event, "outcome"), text(event, "key"))],
  "signal.received": (event) => ["note", "signal", said(text(event, "name"), event.texts["data"])],
  "command.refused": (event) => ["run", "refused", said("a command", text(event, "code")), true],
  "content.erased": (event) => ["note", "erased", worded(event)],
  "personal.received": (event) => [
    "bookkeeping",
    "personal",
    said("now knows", texts(event, "placeholders").join(", ")),
  ],
  "schedule.added": (event) => ["run", "schedule", worded(event)],
  "schedule.changed": (event) => ["run", "schedule", worded(event)],
  "schedule.removed": (event) => ["run", "schedule", worded(event)],
  "schedule.resumed": (event) => ["run", "schedule", worded(event)],
  "run.reopened": () => ["run", "run", "reopened"],
  "run.suspended": (event) => ["run", "run", said(text(event, "status"), text(event, "reason"))],
  "schedule.fired": (event) => [
    "run",
    "schedule",
    said(
      `fired ${text(event, "run")}`,
      integer(event, "missed") > 0 && `${howMany(integer(event, "missed"), "time")} missed before`,
    ),
  ],
  "schedule.queued": (event) => ["run", "schedule", `waits for ${text(event, "behind")}`],
  "schedule.skipped": (event) => [
    "run",
    "schedule",
    said("skipped", text(event, "reason"), text(event, "run")),
  ],
  "schedule.paused": (event) => [
    "run",
    "schedule",
    said("paused", text(event, "reason"), event.texts["note"]),
    text(event, "reason") !== "",
  ],
  "schedule.failed": (event) => [
    "run",
    "schedule",
    said(`cannot start ${text(event, "run")}`, event.texts["message"]),
    true,
  ],
  "note.injected": (event) => ["note", "note", event.texts["text"] ?? ""],
  "limit.set": limited,
  "group.joined": (event) => [
    "note",
    "membrane",
    `${text(event, "principal")} joins ${text(event, "group")}`,
  ],
  "group.left": (event) => ["note", "membrane", `${text(event, "principal")} leaves ${text(event, "group")}`],
};

/** How many calls are to be undone, and what stays, as far as the plan is at hand. */
function planned(event: WireEvent): string {
  const plan = parsed(event, "plan");
  const items = Array.isArray(plan["items"]) ? plan["items"].length : null;
  const stays = Array.isArray(plan["not_undone"]) ? plan["not_undone"].length : 0;
  const note = plan["note"];
  return said(
    items === null ? "calls are to be undone" : `${howMany(items, "call")} to be undone`,
    stays > 0 && `${howMany(stays, "call")} cannot be`,
    typeof note === "string" && note,
  );
}

/** An event by the words of its kind: parts whose fields are all absent are left out. */
function worded(event: WireEvent): string {
  const parts = (KIND_WORDS[event.kind] ?? "").split(" · ").map((part) => {
    let isTold = !part.includes("{");
    const filled = part.replace(/\{([a-z_]+)\}/g, (_, field: string) => {
      const value = shown(event.texts[field] ?? event.data[field]);
      isTold ||= value !== "";
      return value;
    });
    return isTold && filled;
  });
  return said(...parts);
}

function shown(value: unknown): string {
  if (Array.isArray(value)) return value.map(shown).filter(Boolean).join(", ");
  if (typeof value === "number") return String(value);
  return typeof value === "string" && !value.startsWith("b:") ? value : "";
}

/** What nobody here has words for, such as a kind of a later version: its noun, its verb and its small fields. */
function plain(event: WireEvent): Told {
  const [noun = "", verb = ""] = event.kind.split(".");
  if (event.kind in KIND_WORDS) return ["bookkeeping", noun, worded(event)];
  const fields = Object.entries(record(event.data)).filter(
    ([, value]) => (typeof value === "string" && !value.startsWith("b:")) || typeof value === "number",
  );
  const rest = fields.slice(0, 5).map(([name, value]) => `${name} ${String(value)}`);
  return ["bookkeeping", noun, said(verb.replaceAll("_", " "), ...rest)];
}

/** What an event says in its row. */
export const told: Teller = (event, world) => (TELLERS[event.kind] ?? plain)(event, world);
