import { useUi } from "@/state/ui";
import { EmptyState } from "@/ui/EmptyState";
import { PanelRightIcon } from "@/ui/icons/icons";
import { AgentInspector } from "./agent/AgentInspector";
import { ArtifactInspector } from "./artifact/ArtifactInspector";
import { MembraneInspector } from "./membrane/MembraneInspector";
import { RunInspector } from "./run/RunInspector";
import { TaskInspector } from "./task/TaskInspector";

/** What is selected, in detail. */
export default function Inspector() {
  const selection = useUi((state) => state.selection);
  if (selection === null) {
    return (
      <EmptyState title="Nothing is selected" icon={<PanelRightIcon size={20} />}>
        Select an agent, a task, an artifact or a membrane to steer it and to see what it is made of.
      </EmptyState>
    );
  }
  switch (selection.kind) {
    case "agent":
      return <AgentInspector key={selection.id} id={selection.id} />;
    case "task":
      return <TaskInspector key={selection.id} id={selection.id} />;
    case "artifact":
      return <ArtifactInspector key={selection.id} id={selection.id} />;
    case "membrane":
      return <MembraneInspector key={selection.id} id={selection.id} />;
    case "run":
    case "mission":
      return <RunInspector key={selection.id} id={selection.id} />;
  }
}
