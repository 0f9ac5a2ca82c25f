import { plus } from "./draft";
import { type Graph, NOTHING_SPENT, type Spend } from "./graph";

/** What a chat has cost so far: all its runs together, those of discarded variants as well. */
export function chatSpend(graph: Graph, chat: string): Spend {
  let total = NOTHING_SPENT;
  for (const run of graph.runs.values()) {
    if (run.id.startsWith(`${chat}/r`)) total = plus(total, run.spend);
  }
  return total;
}
