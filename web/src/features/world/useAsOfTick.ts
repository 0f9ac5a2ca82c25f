import { useMemo } from "react";
import { tickAfter } from "@/projection/pulse";
import { useEvents } from "@/state/log";
import { useUi } from "@/state/ui";

/** The tick at which a world stood at the time one has travelled to; null is now. */
export function useAsOfTick(world: string): number | null {
  const events = useEvents();
  const isPast = useUi((state) => state.travel) !== null;
  return useMemo(() => (isPast ? tickAfter(events, world) : null), [isPast, events, world]);
}
