import { useGraph, useIsUnread } from "@/state/log";
import { type Selection, useUi } from "@/state/ui";
import { EmptyState } from "@/ui/EmptyState";
import { Skeleton } from "@/ui/Skeleton";
import { PanelRightIcon } from "@/ui/icons/icons";
import { AgentInspector } from "./agent/AgentInspector";
import { ArtifactInspector } from "./artifact/ArtifactInspector";
import { exists } from "./exists";
import { MembraneInspector } from "./membrane/MembraneInspector";
import { RunInspector } from "./run/RunInspector";
import { TaskInspector } from "./task/TaskInspector";

const INSPECTORS = {
  agent: AgentInspector,
  task: TaskInspector,
  artifact: ArtifactInspector,
  membrane: MembraneInspector,
  run: RunInspector,
  mission: RunInspector,
} satisfies Record<Selection["kind"], unknown>;

/** What is selected, in detail. */
export default function Inspector() {
  const selection = useUi((state) => state.selection);
  const travel = useUi((state) => state.travel);
  const graph = useGraph();
  const isUnread = useIsUnread();
  if (selection === null) {
    return (
      <EmptyState title="Nothing is selected" icon={<PanelRightIcon size={20} />}>
        Select an agent, a task, an artifact or a membrane to steer it and to see what it is made of.
      </EmptyState>
    );
  }
  if (travel !== null && isUnread) return <Skeleton label="that moment" rows={6} />;
  if (travel !== null && !exists(graph, selection)) {
    return (
      <EmptyState title="Not there yet">
        At the moment that you look at, {selection.id} did not exist. Go on in time, or back to now.
      </EmptyState>
    );
  }
  const Shown = INSPECTORS[selection.kind];
  return <Shown key={selection.id} id={selection.id} />;
}
