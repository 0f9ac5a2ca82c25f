import { AgentFields } from "./AgentFields";
import { TasksPart } from "./TasksPart";
import type { PlanFormProps } from "./form";
import { MembraneFields } from "./MembraneFields";

/** Everything of a plan, to be changed. What is wrong stands beside its field. */
export function PlanForm(props: PlanFormProps) {
  return (
    <div className="flex flex-col gap-5">
      <AgentFields {...props} />
      <TasksPart {...props} />
      <MembraneFields {...props} />
    </div>
  );
}
