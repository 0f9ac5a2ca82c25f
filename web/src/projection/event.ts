/** One event as the server sends it; see `docs/events.md` for the kinds and their fields. */
export interface WireEvent {
  /** Number in the whole log; ascending, with gaps where other tenants wrote. */
  readonly position: number;
  /** Local name: `run:x`, `artifact:y`, `session:z`, `world:w`, `tenant:t`, `control:x`. */
  readonly stream: string;
  /** `main` or `world:w`. */
  readonly space: string;
  readonly seq: number;
  readonly kind: string;
  readonly at_us: number;
  readonly actor: string;
  readonly cause: string | null;
  /** Fields of the event; a field that has its default is absent. */
  readonly data: Readonly<Record<string, unknown>>;
  /** Small texts that fields of the event refer to, cut with … where they are long. */
  readonly texts: Readonly<Record<string, string>>;
}

export const MAIN_SPACE = "main";

/** `run:churn/figures` is `["run", "churn/figures"]`. */
export function splitStream(stream: string): readonly [type: string, id: string] {
  const colon = stream.indexOf(":");
  return colon < 0 ? [stream, ""] : [stream.slice(0, colon), stream.slice(colon + 1)];
}

/** The id that a ref points at: `letter@2` and `letter#intro` are about `letter`. */
export function idOf(ref: string): string {
  return ref.split(/[@#]/, 1)[0] ?? ref;
}

/** The mission that an id belongs to, or "" for ids that stand alone. */
export function missionOf(id: string): string {
  const slash = id.indexOf("/");
  return slash < 0 ? "" : id.slice(0, slash);
}

/** What a person calls it: the last part of an id. */
export function shortName(id: string): string {
  return id.slice(id.lastIndexOf("/") + 1);
}

// Readers of fields. Events of later versions may lack or change a field; a fold never throws for that.

export function text(event: WireEvent, field: string, fallback = ""): string {
  const value = event.data[field];
  return typeof value === "string" ? value : fallback;
}

export function integer(event: WireEvent, field: string, fallback = 0): number {
  const value = event.data[field];
  return typeof value === "number" && Number.isSafeInteger(value) ? value : fallback;
}

export function flag(event: WireEvent, field: string): boolean {
  return event.data[field] === true;
}

export function texts(event: WireEvent, field: string): readonly string[] {
  return strings(event.data[field]);
}

export function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : [];
}

export function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}

/** A small text that is JSON of an object; {} if it was cut or is something else. */
export function parsed(event: WireEvent, field: string): Readonly<Record<string, unknown>> {
  const source = event.texts[field];
  if (source === undefined) return {};
  try {
    return record(JSON.parse(source));
  } catch {
    return {};
  }
}

/** Whether a value from the network is an event; anything else is dropped at the door. */
export function isWireEvent(value: unknown): value is WireEvent {
  const event = record(value);
  return (
    Number.isSafeInteger(event["position"]) &&
    Number.isSafeInteger(event["seq"]) &&
    Number.isSafeInteger(event["at_us"]) &&
    typeof event["stream"] === "string" &&
    typeof event["space"] === "string" &&
    typeof event["kind"] === "string" &&
    typeof event["actor"] === "string" &&
    typeof event["data"] === "object" &&
    event["data"] !== null &&
    typeof event["texts"] === "object" &&
    event["texts"] !== null
  );
}
