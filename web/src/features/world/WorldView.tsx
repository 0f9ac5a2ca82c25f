import { useState } from "react";
import { inWords } from "@/client/http";
import { href, navigate } from "@/shell/route";
import { cx } from "@/ui/cx";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { Tabs } from "@/ui/Tabs";
import { AgentPane } from "./AgentPane";
import { AgentsTab } from "./AgentsTab";
import { DealingsTab } from "./DealingsTab";
import { EventsTab } from "./EventsTab";
import { MoneyTab } from "./MoneyTab";
import { RefusedTab } from "./RefusedTab";
import { TradesTab } from "./TradesTab";
import { useAsOfTick } from "./useAsOfTick";
import { useWorld } from "./useWorld";
import { WorldHead } from "./WorldHead";

interface WorldViewProps {
  readonly id: string;
  /** The agent that the address names; "" for none. */
  readonly agent: string;
}

/** One world: its time, its agents and their money, what they trade and what is refused. */
export function WorldView({ id, agent }: WorldViewProps) {
  const { data: world, error, refetch } = useWorld(id);
  const asOf = useAsOfTick(id);
  const [tab, setTab] = useState("agents");
  if (world === undefined) {
    if (error === null) return <Skeleton label={`the world ${id}`} rows={8} />;
    const { title, advice } = inWords(error);
    return <ErrorState title={title} advice={advice} onRetry={refetch} />;
  }
  const choose = (name: string) => navigate(href("world", id, name === "" ? {} : { agent: name }));
  const shared = { world, asOf, agent, onAgent: choose };
  return (
    <section aria-label={`World ${id}`} className="flex min-h-0 min-w-0 flex-col">
      <WorldHead world={world} asOf={asOf} />
      {error !== null && (
        <p role="alert" className="border-b border-line px-4 py-1.5 text-12 text-warn">
          What is shown is old: {inWords(error).title}
        </p>
      )}
      <div
        className={cx(
          "grid min-h-0 flex-1 grid-cols-1",
          agent !== "" && "@min-[960px]:grid-cols-[minmax(0,1fr)_20rem]",
        )}
      >
        <Tabs
          label={`About ${id}`}
          className={cx("min-w-0", agent !== "" && "@max-[960px]:hidden")}
          selected={tab}
          onSelect={setTab}
          tabs={[
            { id: "agents", label: "Agents", content: <AgentsTab {...shared} /> },
            { id: "money", label: "Money", content: <MoneyTab {...shared} /> },
            { id: "trades", label: "Trades", content: <TradesTab {...shared} /> },
            { id: "graph", label: "Graph", content: <DealingsTab {...shared} /> },
            { id: "refused", label: "Refused", content: <RefusedTab {...shared} /> },
            { id: "events", label: "Events", content: <EventsTab {...shared} /> },
          ]}
        />
        {agent !== "" && <AgentPane {...shared} onClose={() => choose("")} />}
      </div>
    </section>
  );
}
