import type { Task } from "@/projection/graph";
import { Linked } from "./Linked";

/** What it made, what it starts from, and what it hangs on. */
export function TaskLinks({ task }: { readonly task: Task }) {
  return (
    <>
      <Linked
        title="Outputs"
        kind="artifact"
        refs={task.outputs}
        empty={task.status === "done" ? "It made none." : "None yet: they count once the task is done."}
      />
      <Linked title="Inputs" kind="artifact" refs={task.inputs} />
      <Linked title="Depends on" kind="task" refs={task.dependsOn} />
      <Linked title="Handed on by" kind="task" refs={task.parent === "" ? [] : [task.parent]} />
    </>
  );
}
