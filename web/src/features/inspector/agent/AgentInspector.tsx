import { useGraph } from "@/state/log";
import { shortName } from "@/projection/event";
import { AgentIcon } from "@/ui/icons/icons";
import { Tabs } from "@/ui/Tabs";
import { openRunsOf } from "../commands";
import { Head } from "../parts/Head";
import { Loaded } from "../parts/Loaded";
import { useInspector } from "../state";
import { AgentControls } from "./AgentControls";
import { AgentStatus } from "./AgentStatus";
import { agentTabs } from "./agentTabs";
import { useAgent } from "./useAgent";

/** An agent: how it is steered, what it works on, with what, and at what price. */
export function AgentInspector({ id }: { readonly id: string }) {
  const query = useAgent(id);
  const tab = useInspector((state) => state.agentTab);
  const graph = useGraph();
  const agent = graph.agents.get(id);
  const runs = openRunsOf(graph, id);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Head
        icon={
          <span className="text-agent">
            <AgentIcon />
          </span>
        }
        name={query.data?.name ?? agent?.name ?? shortName(id)}
        id={id}
        status={
          <AgentStatus
            agent={agent}
            run={graph.runs.get(agent?.runId ?? "")}
            task={graph.tasks.get(agent?.task ?? "")}
          />
        }
      >
        <AgentControls agent={id} runs={runs} />
      </Head>
      <Loaded query={query} what="the agent" rows={8}>
        {(shown) => (
          <Tabs
            label="Agent"
            tabs={agentTabs(shown, agent?.task ?? "")}
            selected={tab}
            onSelect={(agentTab) => useInspector.setState({ agentTab })}
            className="flex-1 [&_[role=tab]]:text-12 [&_[role=tablist]]:gap-3"
          />
        )}
      </Loaded>
    </div>
  );
}
