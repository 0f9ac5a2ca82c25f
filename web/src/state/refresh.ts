import { useEffect } from "react";
import { queryClient } from "@/client/queries";
import { eventLog } from "./log";

/** The shortest time between two readings of the same thing while events rush in. */
const PAUSE_MS = 1000;

function isNews(kinds: readonly string[], after: number): boolean {
  const events = eventLog.events();
  for (let index = events.length - 1; index >= 0; index -= 1) {
    const event = events[index];
    if (event === undefined || event.position <= after) return false;
    if (kinds.some((kind) => event.kind.startsWith(kind))) return true;
  }
  return false;
}

/**
 * Asks the server again for `key` whenever something happened whose kind begins with one of `kinds`
 * (`memory.`), at once and then not more often than every second. Pass arrays declared outside the component.
 */
export function useRefresh(kinds: readonly string[], key: readonly string[]): void {
  useEffect(() => {
    let position = eventLog.position;
    let isDue = false;
    let timer: ReturnType<typeof setTimeout> | null = null;
    const read = () => {
      isDue = false;
      timer = setTimeout(() => {
        timer = null;
        if (isDue) read();
      }, PAUSE_MS);
      void queryClient.invalidateQueries({ queryKey: key });
    };
    const stop = eventLog.subscribe(() => {
      const after = position;
      position = eventLog.position;
      if (!isNews(kinds, after)) return;
      if (timer === null) read();
      else isDue = true;
    });
    return () => {
      stop();
      if (timer !== null) clearTimeout(timer);
    };
  }, [kinds, key]);
}
