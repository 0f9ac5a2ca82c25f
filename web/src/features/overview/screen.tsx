import type { Graph } from "@/projection/graph";
import {
  allTasks,
  liveAgents,
  madeArtifacts,
  liveMembranes,
  missions,
  waitingApprovals,
} from "@/projection/vitals";
import { useGraph, useIsUnread } from "@/state/log";
import { EmptyState } from "@/ui/EmptyState";
import { CanvasIcon } from "@/ui/icons/icons";
import { Skeleton } from "@/ui/Skeleton";
import { AgentRow, ApprovalRow, ArtifactRow, MembraneRow, MissionRow, TaskRow } from "./rows";
import { Section } from "./Section";

const ROWS_MAX = 100;

function isNothing(graph: Graph): boolean {
  return (
    graph.agents.size + graph.tasks.size + graph.artifacts.size + graph.missions.size + graph.runs.size === 0
  );
}

/** The canvas as lists: for phones, for screen readers, for whoever likes lists. */
export default function Overview() {
  const graph = useGraph();
  const isUnread = useIsUnread();
  if (isNothing(graph)) {
    if (isUnread) return <Skeleton isScreen label="what happened so far" rows={8} />;
    return (
      <EmptyState title="Nothing has happened yet" icon={<CanvasIcon size={28} />}>
        Give a goal in a terminal, <code className="num">artelier do &quot;…&quot;</code>; its agents, tasks
        and artifacts appear here as they come to be.
      </EmptyState>
    );
  }
  return (
    <div className="grid grid-cols-1 gap-4 p-4 desktop:grid-cols-2">
      <h1 className="sr-only">Overview</h1>
      <Section
        title="Waiting for a person"
        items={waitingApprovals(graph)}
        max={ROWS_MAX}
        empty="Nothing waits for you."
        row={(one) => <ApprovalRow key={one.id} approval={one} />}
      />
      <Section
        title="Goals"
        items={missions(graph)}
        max={ROWS_MAX}
        empty="No goal was planned yet."
        row={(one) => <MissionRow key={one.id} mission={one} graph={graph} />}
      />
      <Section
        title="Agents"
        items={liveAgents(graph)}
        max={ROWS_MAX}
        empty="No agent has worked yet."
        row={(one) => <AgentRow key={one.id} agent={one} graph={graph} />}
      />
      <Section
        title="Tasks"
        items={allTasks(graph)}
        max={ROWS_MAX}
        empty="No task is there."
        row={(one) => <TaskRow key={one.id} task={one} />}
      />
      <Section
        title="Artifacts, newest first"
        items={madeArtifacts(graph)}
        max={ROWS_MAX}
        empty="Nothing was made yet."
        row={(one) => <ArtifactRow key={one.id} artifact={one} />}
      />
      <Section
        title="Membranes"
        items={liveMembranes(graph)}
        max={ROWS_MAX}
        empty="Nobody shares anything."
        row={(one) => <MembraneRow key={one.id} membrane={one} />}
      />
    </div>
  );
}
