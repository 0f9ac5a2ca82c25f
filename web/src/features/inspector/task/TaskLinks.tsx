import type { Task } from "@/projection/graph";
import { Part } from "../parts/Part";
import { RefButton } from "../parts/RefButton";

interface LinkedProps {
  readonly title: string;
  readonly kind: "task" | "artifact";
  readonly refs: readonly string[];
  readonly empty?: string;
}

function Linked({ title, kind, refs, empty }: LinkedProps) {
  if (refs.length === 0 && empty === undefined) return null;
  return (
    <Part title={title}>
      {refs.length === 0 ? (
        <p className="text-ink-2">{empty}</p>
      ) : (
        <ul className="flex flex-col gap-1">
          {refs.map((ref) => (
            <li key={ref}>
              <RefButton kind={kind} to={ref} />
            </li>
          ))}
        </ul>
      )}
    </Part>
  );
}

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
