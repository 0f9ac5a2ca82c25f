import { isUnread } from "@/client/live";
import { counted } from "@/projection/counted";
import type { Graph, Run } from "@/projection/graph";
import { vitals } from "@/projection/vitals";
import { useGraph, useProjection } from "@/state/log";
import { type Selection, useUi } from "@/state/ui";
import { compact, dollars, whole } from "@/ui/amounts";
import { Meter } from "@/ui/Meter";
import { ContextGauge } from "./ContextGauge";
import { Vital } from "./Vital";

/** What it costs, what runs, what waits for people, and how large the newest prompt is. */
export function Vitals() {
  const now = useProjection(vitals);
  const graph = useGraph();
  const selection = useUi((state) => state.selection);
  const isUnknown = useUi((state) => isUnread(state.live));
  const run = promptRun(graph, selection);
  const agent = selection?.kind === "agent" ? graph.agents.get(selection.id) : undefined;
  const budget = now.budgetMicrousd === null ? "no limit" : dollars(now.budgetMicrousd);
  const spent = `${now.unpriced > 0 ? "≥ " : ""}${dollars(now.spentMicrousd)}`;
  return (
    <dl className="flex flex-wrap items-stretch gap-y-1">
      <Vital label="spent / budget" title={costTitle(now.heldMicrousd, now.unpriced)}>
        {isUnknown ? "…" : `${spent} / ${budget}`}
      </Vital>
      <Vital label="running">
        {isUnknown ? "…" : `${now.runningAgents} of ${counted(now.agents, "agent")}`}
      </Vital>
      <Vital label="approvals" tone={now.waitingApprovals > 0 ? "text-warn" : undefined}>
        {isUnknown ? "…" : now.waitingApprovals === 0 ? "none waiting" : `${now.waitingApprovals} waiting`}
      </Vital>
      {agent !== undefined && agent.version > 0 && <ContextGauge agent={agent} />}
      {agent === undefined && run !== null && (
        <Vital
          label="newest prompt"
          className="max-tablet:hidden"
          title={`${run.id}: ${whole(run.promptTokens)} tokens, ${whole(run.promptCachedTokens)} from cache`}
        >
          <span className="flex items-center gap-2">
            {compact(run.promptTokens)} tok
            <Meter
              label="Share of the newest prompt that came from the cache"
              value={run.promptCachedTokens}
              max={run.promptTokens}
              valueText={`${whole(run.promptCachedTokens)} of ${whole(run.promptTokens)} tokens from cache`}
              tone="membrane"
              warnFrom={2}
              className="w-12"
            />
          </span>
        </Vital>
      )}
    </dl>
  );
}

function costTitle(held: number, unpriced: number): string {
  const parts = [
    held > 0 ? `${dollars(held)} held for calls in flight` : "nothing held",
    unpriced > 0 ? `not in the sum: ${counted(unpriced, "call")} without a known price` : "",
  ];
  return parts.filter(Boolean).join("; ");
}

/** The run whose prompt is shown: of what is selected, else the one that asked a model last. */
function promptRun(graph: Graph, selection: Selection | null): Run | null {
  const chosen =
    selection?.kind === "agent"
      ? graph.agents.get(selection.id)?.runId
      : selection?.kind === "run" || selection?.kind === "task"
        ? selection.id
        : undefined;
  const run = chosen === undefined ? undefined : graph.runs.get(chosen);
  if (run !== undefined && run.promptTokens > 0) return run;
  let newest: Run | null = null;
  for (const one of graph.runs.values()) {
    if (one.promptTokens > 0 && (newest === null || one.lastPosition > newest.lastPosition)) newest = one;
  }
  return newest;
}
