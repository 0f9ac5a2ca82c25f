import { counted } from "@/projection/counted";
import type { Shape } from "@/client/types";
import { NOTHING_SPENT } from "@/projection/graph";
import { useGraph } from "@/state/log";
import { useUi } from "@/state/ui";
import { compact, dollars, whole } from "@/ui/amounts";
import { Meter } from "@/ui/Meter";
import { Facts } from "../parts/Facts";
import { OnlyNow } from "../parts/OnlyNow";
import { Part } from "../parts/Part";
import { byModel } from "./costs";
import { StepCosts } from "./StepCosts";

/** What an agent has cost: against its budget, by model, by step. */
export function CostsTab({ agent }: { readonly agent: Shape<"AgentShown"> }) {
  const travel = useUi((state) => state.travel);
  const graph = useGraph();
  const known = graph.agents.get(agent.id);
  const spend = known?.spend ?? NOTHING_SPENT;
  const models = byModel(graph, agent.id);
  const cap = travel === null ? (agent.budget?.usd ?? null) : null;
  const left = agent.budget?.left ?? 0;
  return (
    <>
      <Part title="Spent" aside={`${spend.unpriced > 0 ? "≥ " : ""}${dollars(spend.microusd)}`}>
        {cap !== null && (
          <>
            <Meter
              label="Budget used"
              value={cap - left}
              max={cap}
              valueText={`${dollars(cap - left)} of ${dollars(cap)}`}
            />
            <p className="text-12">
              {dollars(left)} left of {dollars(cap)}.
            </p>
          </>
        )}
        <Facts
          rows={[
            ["Calls", whole(spend.calls)],
            ["Tokens in", `${compact(spend.inputTokens)}, ${compact(spend.cachedTokens)} from cache`],
            ["Tokens out", compact(spend.outputTokens)],
            [
              "Without a known price",
              spend.unpriced > 0 ? `${counted(spend.unpriced, "call")}, not in the sum` : "",
            ],
          ]}
        />
      </Part>
      <Part title="By model">
        {models.length === 0 ? (
          <p className="text-ink-2">It has called no model yet.</p>
        ) : (
          <Facts
            rows={models.map(([model, one]) => [
              `${model}, ${counted(one.calls, "call")}`,
              <span key={model} className="num">
                {dollars(one.microusd)} · {compact(one.inputTokens + one.outputTokens)} tok
              </span>,
            ])}
          />
        )}
      </Part>
      {travel !== null ? (
        <OnlyNow what="The cost of each step" />
      ) : (
        known?.runId !== undefined && known.runId !== "" && <StepCosts runId={known.runId} />
      )}
    </>
  );
}
