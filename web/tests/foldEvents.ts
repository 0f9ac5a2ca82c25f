/// <reference types="node" />
// Folds histories, each a line of standard input with its events as JSON, and prints the graph of each: what tests of
// the server compare its fold with.
import { readFileSync } from "node:fs";
import type { WireEvent } from "../src/projection/event";
import { foldAll } from "../src/projection/fold";
import { beat, STILL } from "../src/projection/pulse";

function plain(_key: string, value: unknown): unknown {
  if (value instanceof Map) return Object.fromEntries(value as ReadonlyMap<string, unknown>);
  return value instanceof Set ? [...(value as ReadonlySet<unknown>)].sort() : value;
}

for (const line of readFileSync(0, "utf8").split("\n")) {
  if (line === "") continue;
  const events = JSON.parse(line) as WireEvent[];
  process.stdout.write(`${JSON.stringify({ ...foldAll(events), pulse: beat(STILL, events) }, plain)}\n`);
}
