/// <reference types="node" />
// Rows as the server makes them of events: its own fold, in a process beside the test.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, openSync, readSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { browser } from "@/client/browser";
import { readRows } from "@/client/snapshot";
import type { Shape } from "@/client/types";
import type { WireEvent } from "@/projection/event";
import type { Graph } from "@/projection/graph";
import type { Snapshot } from "@/projection/store";
import { eventLog } from "@/state/log";

const ROOT = join(process.cwd(), "..");
const LOOP = `cd "$0" && exec .venv/bin/python -m tests.server.fold_lines <"$1/in" >"$1/out"`;

let pipes: { readonly into: number; readonly from: number } | null = null;

/** Named pipes, since a test cannot wait for a process in any other way. */
function open(): { readonly into: number; readonly from: number } {
  const folder = mkdtempSync(join(tmpdir(), "fold-"));
  execFileSync("mkfifo", [join(folder, "in"), join(folder, "out")]);
  const env = { ...process.env, PYTHONPATH: `${ROOT}/src:${ROOT}` };
  spawn("sh", ["-c", LOOP, ROOT, folder], { env, stdio: "ignore" }).unref();
  return { into: openSync(join(folder, "in"), "w"), from: openSync(join(folder, "out"), "r") };
}

/** What the server says of these events. */
export function rowsOf(events: readonly WireEvent[]): Shape<"GraphOut"> {
  pipes ??= open();
  writeSync(pipes.into, `${JSON.stringify(events)}\n`);
  const parts: Buffer[] = [];
  const part = Buffer.alloc(65_536);
  do {
    const count = readSync(pipes.from, part);
    if (count === 0) throw new Error("the server's fold has ended (make setup?)");
    parts.push(Buffer.from(part.subarray(0, count)));
  } while (parts.at(-1)?.at(-1) !== 10);
  return JSON.parse(Buffer.concat(parts).toString()) as Shape<"GraphOut">;
}

const known = new Map<string, Snapshot>();

/** What a page has that began after these events. The same object for the same events. */
export function snapshotOf(events: readonly WireEvent[]): Snapshot {
  const key = JSON.stringify(events);
  const found = known.get(key) ?? readRows(rowsOf(events));
  known.set(key, found);
  return found;
}

export function foldAll(events: readonly WireEvent[]): Graph {
  return snapshotOf(events).graph;
}

/** Lets events come to the page, after those that it has. */
export function come(events: readonly WireEvent[]): void {
  const fresh = events.filter(({ position }) => position > eventLog.position);
  eventLog.advance(snapshotOf([...eventLog.events(), ...fresh]), fresh);
}

/** Answers what the page asks of moments of the past, as the server does. */
export function serveThePast(): void {
  vi.spyOn(browser, "snapshot").mockImplementation((at) => Promise.resolve(snapshotOf(eventLog.events(at))));
}
