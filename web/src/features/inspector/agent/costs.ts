import { plus } from "@/projection/graph";
import type { Graph, Spend } from "@/projection/graph";
import { NOTHING_SPENT } from "@/projection/graph";

/** What the runs of an agent spent on each model, the dearest first. */
export function byModel(graph: Graph, agent: string): readonly (readonly [model: string, spend: Spend])[] {
  const found = new Map<string, Spend>();
  for (const run of graph.runs.values()) {
    if (run.agent !== agent || (run.spend.calls === 0 && run.spend.microusd === 0)) continue;
    const model = run.model === "" ? "(no model)" : run.model;
    found.set(model, plus(found.get(model) ?? NOTHING_SPENT, run.spend));
  }
  return [...found].sort(([, a], [, b]) => b.microusd - a.microusd || b.calls - a.calls);
}
