import { useMemo } from "react";
import { counted } from "@/projection/counted";
import type { WorldAgent } from "@/client/worlds";
import { useWorldFigures } from "@/state/useWorldFigures";
import { whole } from "@/ui/amounts";
import { EmptyState } from "@/ui/EmptyState";
import { type Column, Table } from "@/ui/Table";
import { agentsAt } from "./agentsAt";
import { Read } from "./Read";
import type { WorldPart } from "./tab";
import { AGENTS_MAX, useAgents } from "./useAgents";

const COLUMNS: readonly Column<WorldAgent>[] = [
  { id: "id", label: "Agent", cell: (one) => one.id, sortBy: (one) => one.id, width: "18%" },
  {
    id: "balance",
    label: "Scrip",
    cell: (one) => whole(one.balance),
    sortBy: (one) => one.balance,
    align: "right",
    width: "10%",
  },
  {
    id: "owns",
    label: "Owns",
    cell: (one) => one.owns,
    sortBy: (one) => one.owns,
    align: "right",
    width: "9%",
  },
  {
    id: "state",
    label: "State",
    cell: (one) =>
      one.state === null ? (
        <span className="text-ink-3">no workflow</span>
      ) : (
        `${one.state}, ${counted(one.ticks_in_state, "tick")}`
      ),
    sortBy: (one) => one.state ?? "",
    width: "20%",
  },
  {
    id: "action",
    label: "Last action",
    cell: (one) => <LastAction agent={one} />,
    sortBy: (one) => one.last_action ?? "",
    width: "20%",
  },
  {
    id: "source",
    label: "Decided by",
    cell: (one) => one.last_source ?? "–",
    sortBy: (one) => one.last_source ?? "",
  },
  {
    id: "failures",
    label: "Failures",
    cell: (one) => one.failures,
    sortBy: (one) => one.failures,
    align: "right",
    width: "11%",
  },
];

const BALANCES: readonly Column<WorldAgent>[] = COLUMNS.slice(0, 2);

function LastAction({ agent }: { readonly agent: WorldAgent }) {
  if (agent.last_action === null) return <span className="text-ink-3">none yet</span>;
  return (
    <>
      {agent.last_action}
      {agent.last_ok === false && <span className="text-bad"> refused</span>}
      <span className="text-ink-3"> at tick {agent.last_tick}</span>
    </>
  );
}

/** Agents with their balances and states; of the past only balances are known. */
export function AgentsTab({ world, asOf, agent, onAgent }: WorldPart) {
  const query = useAgents(world.id);
  const figures = useWorldFigures(world.id, { span: 200 });
  const then = useMemo(() => agentsAt(query.data, figures.data, asOf), [query.data, figures.data, asOf]);
  return (
    <Read what="the agents" query={query}>
      {(agents) =>
        agents.length === 0 ? (
          <EmptyState title="No agent lives here">
            Fork a world with agents, or make one from a world file that has some.
          </EmptyState>
        ) : (
          <div className="flex h-full flex-col">
            {then === null && (
              <p className="px-4 py-2 text-12 text-ink-2">
                Balances of tick {asOf} are not at hand: fork the world there to look at it.
              </p>
            )}
            <div className="min-h-0 flex-1">
              <Table
                label={asOf === null ? "Agents" : `Balances after tick ${asOf}`}
                columns={asOf === null ? COLUMNS : BALANCES}
                rows={then ?? []}
                rowId={(one) => one.id}
                selected={agent}
                onSelect={(one) => onAgent(one.id)}
              />
            </div>
            {world.agents > AGENTS_MAX && (
              <p className="border-t border-line px-4 py-1.5 text-12 text-ink-2">
                The richest {whole(AGENTS_MAX)} of {whole(world.agents)} agents.
              </p>
            )}
          </div>
        )
      }
    </Read>
  );
}
