import { useSyncExternalStore } from "react";
import { beat, type Pulse, STILL } from "@/projection/pulse";
import { eventLog } from "./log";

let pulse: Pulse = STILL;
let scanned = 0;

function take(): void {
  if (eventLog.position < scanned) {
    pulse = STILL; // another tenant
    scanned = 0;
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
