import { record } from "./event";

/** An event of a world as its routes tell it. */
export interface ToldEvent {
  readonly seq: number;
  readonly tick: number;
  readonly kind: string;
  readonly actor: string;
  readonly data: Readonly<Record<string, unknown>>;
}

function word(value: unknown): string {
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
}

/** What was done, in a few words: `accept offer-9-1`, `artifact.charged`. */
export function actionWords({ kind, data }: ToldEvent): string {
  const act = record(data["act"]);
  const action = word(act["action"]);
  return action === "" ? kind : `${action} ${word(act["ref"])}`.trim();
}

/** What decided: a policy, a reflex, a workflow, a model. */
export function sourceWords({ data }: ToldEvent): string {
  return word(record(data["act"])["source"]);
}

/** What came of it: the reason of a refusal, a result, a text that was told. */
export function outcomeWords({ kind, data }: ToldEvent): string {
  if (kind === "tick.passed") return `${word(data["acted"])} acted, ${word(data["rejected"]) || "0"} refused`;
  const act = record(data["act"]);
  return word(data["reason"]) || word(data["text"]) || word(act["result"]) || word(data["result"]);
}

/** Why it was done, in the words of who did it. */
export function reasonWords({ data }: ToldEvent): string {
  return word(record(data["act"])["reasoning"]) || word(data["reasoning"]);
}

export interface Trade {
  readonly seq: number;
  readonly tick: number;
  readonly buyer: string;
  readonly seller: string;
  readonly artifact: string;
  readonly got: string;
  readonly sells: string;
  readonly price: number;
}

export function tradeOf({ seq, tick, actor, data }: ToldEvent): Trade {
  const price = data["price"];
  return {
    seq,
    tick,
    buyer: word(data["buyer"]) || actor,
    seller: word(data["seller"]),
    artifact: word(data["artifact"]),
    got: word(data["got"]),
    sells: word(data["sells"]) || "ownership",
    price: typeof price === "number" ? price : 0,
  };
}

/** Who wrote to whom; "" for what is no message. */
export function messageOf({ actor, data }: ToldEvent): readonly [string, string] {
  return [actor, word(data["to"])];
}
