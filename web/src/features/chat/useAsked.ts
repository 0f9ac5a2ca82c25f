import { usePulse } from "@/state/pulse";
import type { Place } from "./api";

/** How a run came to be: `generate`, `regenerate` or `continue`; "" if nobody knows any more. */
export function useAsked({ chat, branch }: Place, run: string): string {
  const asked = usePulse().asked.get(`${chat}#${branch}`);
  return asked?.run === run ? asked.trigger : "";
}
