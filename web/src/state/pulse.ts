import { useSyncExternalStore } from "react";
import type { Pulse } from "@/projection/pulse";
import { eventLog } from "./log";

export function currentPulse(): Pulse {
  return eventLog.pulse;
}

export function usePulse(): Pulse {
  return useSyncExternalStore(eventLog.subscribe, currentPulse);
}

/** Position of the newest event about a thing, such as `session:x`; 0 before the first. */
export function useBeat(key: string): number {
  return usePulse().newest.get(key) ?? 0;
}
