import { calledIn } from "@/projection/rows";
import { eventLog } from "./log";

/** What a person calls whoever did it: agents as on the canvas. */
export function called(actor: string): string {
  return calledIn(eventLog.graph.agents, actor);
}
