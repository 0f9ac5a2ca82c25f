import type { Draft } from "./draft";
import {
  idOf,
  integer,
  missionOf,
  parsed,
  record,
  shortName,
  strings,
  text,
  texts,
  type WireEvent,
} from "./event";
import type { Artifact } from "./graph";

type Fold = (draft: Draft, event: WireEvent) => void;

const GROUP = "membrane:";

/** Which membranes a policy lets read. */
function membranesOf(access: unknown): readonly string[] {
  const readers = strings(record(record(access)["allow"])["read"]);
  return readers.filter((one) => one.startsWith(GROUP)).map((one) => one.slice(GROUP.length));
}

function string(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function written(draft: Draft, event: WireEvent): void {
  const id = text(event, "id");
  if (id === "") return;
  const before = draft.get("artifacts", id);
  const content = parsed(event, "content");
  const metadata = parsed(event, "metadata");
  const prices = record(event.data["prices"]);
  const artifact: Artifact = {
    id,
    kind: text(event, "kind"),
    title: string(metadata["title"]) || string(content["name"]) || before?.title || shortName(id),
    version: integer(event, "version"),
    media: text(event, "media"),
    sizeBytes: integer(event, "size_bytes"),
    owner: text(event, "owner"),
    creator: text(event, "creator"),
    mission: missionOf(id),
    runId: text(event, "run_id"),
    derivedFrom: texts(event, "derived_from"),
    membranes: membranesOf(event.data["access"]),
    priceRead: typeof prices["read"] === "number" ? prices["read"] : 0,
    deleted: false,
    createdUs: before?.createdUs ?? event.at_us,
    changedUs: event.at_us,
  };
  draft.put("artifacts", id, artifact);
  share(draft, id, before?.membranes ?? [], artifact.membranes);
  if (artifact.kind === "agent") writtenAgent(draft, event, artifact, content);
  else if (artifact.kind === "membrane") writtenMembrane(draft, artifact, content);
  else if (artifact.kind === "task") writtenTask(draft, id, content);
  else draft.link("wrote", writer(draft, artifact), id, event);
}

/** Who made this version: the agent of the run that wrote it, else the owner. */
function writer(draft: Draft, artifact: Artifact): string {
  const agent = draft.get("runs", artifact.runId)?.agent ?? "";
  if (agent !== "") return agent;
  return draft.get("agents", artifact.owner) === undefined ? "" : artifact.owner;
}

function writtenAgent(
  draft: Draft,
  event: WireEvent,
  artifact: Artifact,
  content: Readonly<Record<string, unknown>>,
): void {
  const agent = draft.agent(artifact.id);
  draft.put("agents", artifact.id, {
    ...agent,
    name: string(content["name"]) || agent.name,
    role: string(content["role"]) || agent.role,
    version: artifact.version,
    deleted: false,
    lastUs: Math.max(agent.lastUs, event.at_us),
  });
}

function writtenMembrane(draft: Draft, artifact: Artifact, content: Readonly<Record<string, unknown>>): void {
  const before = draft.get("membranes", artifact.id);
  draft.put("membranes", artifact.id, {
    id: artifact.id,
    mission: artifact.mission,
    name: string(content["name"]) || before?.name || shortName(artifact.id),
    version: artifact.version,
    members: before?.members ?? new Set(),
    shared: before?.shared ?? sharedIn(draft, artifact.id),
    deleted: false,
  });
}

function sharedIn(draft: Draft, membrane: string): ReadonlySet<string> {
  const found = new Set<string>();
  for (const artifact of draft.all("artifacts")) {
    if (!artifact.deleted && artifact.id !== membrane && artifact.membranes.includes(membrane))
      found.add(artifact.id);
  }
  return found;
}

function writtenTask(draft: Draft, id: string, content: Readonly<Record<string, unknown>>): void {
  draft.patch("tasks", id, {
    goal: string(content["goal"]),
    criteria: string(content["success_criteria"]),
  });
}

function share(draft: Draft, id: string, before: readonly string[], after: readonly string[]): void {
  for (const membrane of new Set([...before, ...after])) {
    const known = draft.get("membranes", membrane);
    if (known === undefined || membrane === id) continue;
    const shared = new Set(known.shared);
    if (after.includes(membrane)) shared.add(id);
    else shared.delete(id);
    draft.put("membranes", membrane, { ...known, shared });
  }
}

function deleted(draft: Draft, event: WireEvent): void {
  const id = text(event, "id");
  const before = draft.get("artifacts", id);
  if (before === undefined) return;
  share(draft, id, before.membranes, []);
  draft.put("artifacts", id, { ...before, deleted: true, membranes: [] });
  draft.patch("agents", id, { deleted: true });
  draft.patch("membranes", id, { deleted: true });
}

function transferred(draft: Draft, event: WireEvent): void {
  const id = text(event, "id");
  const before = draft.get("artifacts", id);
  const access = event.data["access"];
  if (before !== undefined) {
    const membranes = access === undefined || access === null ? before.membranes : membranesOf(access);
    share(draft, id, before.membranes, membranes);
    draft.put("artifacts", id, { ...before, owner: text(event, "to"), membranes, changedUs: event.at_us });
  }
  draft.link("sold", text(event, "giver"), text(event, "to"), event);
}

function charged(draft: Draft, event: WireEvent): void {
  const kind = text(event, "action") === "invoke" ? "invoked" : "read";
  draft.link(kind, text(event, "id"), text(event, "payer"), event);
}

function membership(joins: boolean): Fold {
  return (draft, event) => {
    const group = text(event, "group");
    if (group === "") return;
    const before = draft.get("membranes", group);
    const members = new Set(before?.members);
    if (joins) members.add(text(event, "principal"));
    else members.delete(text(event, "principal"));
    if (before !== undefined) {
      draft.put("membranes", group, { ...before, members });
      return;
    }
    draft.put("membranes", group, {
      id: group,
      mission: missionOf(group),
      name: shortName(group),
      version: 0,
      members,
      shared: sharedIn(draft, group),
      deleted: false,
    });
  };
}

const ARTIFACT_FOLDS: Readonly<Record<string, Fold>> = {
  "artifact.written": written,
  "artifact.deleted": deleted,
  "artifact.transferred": transferred,
  "artifact.charged": charged,
  "artifact.invoked": (draft, event) =>
    draft.link("invoked", text(event, "caller"), idOf(text(event, "id")), event),
  "group.joined": membership(true),
  "group.left": membership(false),
};

export function foldArtifact(draft: Draft, event: WireEvent): void {
  ARTIFACT_FOLDS[event.kind]?.(draft, event);
}
