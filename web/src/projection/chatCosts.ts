import { plus } from "./graph";
import { type Graph, NOTHING_SPENT, type Run, type Spend } from "./graph";

/** The chat that a run has replied in; "" for a run that is no turn of one. */
export function chatOf(run: Run | undefined): string {
  return run?.loop === "chat" ? (/^(.+)\/r\d+$/.exec(run.id)?.[1] ?? "") : "";
}

/** What a chat has cost so far: all its runs together, those of discarded variants as well. */
export function chatSpend(graph: Graph, chat: string): Spend {
  let total = NOTHING_SPENT;
  for (const run of graph.runs.values()) {
    if (run.id.startsWith(`${chat}/r`)) total = plus(total, run.spend);
  }
  return total;
}
