import { useSyncExternalStore } from "react";
import { beat, type Pulse } from "@/projection/pulse";
import type { Snapshot } from "@/projection/store";
import { eventLog } from "./log";

let origin: Snapshot = eventLog.origin;
let pulse: Pulse = origin.pulse;
let scanned = origin.graph.position;

function take(): void {
  if (eventLog.origin !== origin) {
    origin = eventLog.origin; // the page has begun anew
    pulse = origin.pulse;
    scanned = origin.graph.position;
  }
  if (eventLog.position === scanned) return;
  const events = eventLog.events();
  const from = events.findLastIndex((event) => event.position <= scanned) + 1;
  pulse = beat(pulse, events.slice(from));
  scanned = eventLog.position;
}

// Before any component hears of the same events.
eventLog.subscribe(take);

export function currentPulse(): Pulse {
  take();
  return pulse;
}

export function usePulse(): Pulse {
  return useSyncExternalStore(eventLog.subscribe, currentPulse);
}

/** Position of the newest event about a thing, such as `session:x`; 0 before the first. */
export function useBeat(key: string): number {
  return usePulse().newest.get(key) ?? 0;
}
