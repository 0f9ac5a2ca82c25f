import { counted } from "@/projection/counted";
import { useGraph } from "@/state/log";
import { Markdown } from "@/ui/markdown/Markdown";
import { Loaded } from "../parts/Loaded";
import { Part } from "../parts/Part";
import { Assign } from "./Assign";
import { Iterations } from "./Iterations";
import { Judgements } from "./Judgements";
import { iterationsOf } from "./iterations";
import { TaskActions } from "./TaskActions";
import { TaskLinks } from "./TaskLinks";
import { TaskStanding } from "./TaskStanding";
import { useTask } from "./useTask";

/** A task: goal, criteria, where it stands, each step with what came of it, and its outputs. */
export function TaskDetails({ id }: { readonly id: string }) {
  const query = useTask(id);
  const graph = useGraph();
  const task = graph.tasks.get(id);
  return (
    <Loaded query={query} what="the task" rows={8}>
      {(shown) => (
        <>
          {task !== undefined && (
            <Part title="Status" aside={`iteration ${task.iteration} of ${task.iterationsMax}`}>
              <TaskStanding task={task} run={graph.runs.get(id)} />
              <TaskActions task={task} run={graph.runs.get(id)} />
            </Part>
          )}
          <Part title="Goal">
            <p className="break-words">{shown.goal}</p>
          </Part>
          <Part title="Success criteria" aside={shown.only_checks ? "judged by checks alone" : undefined}>
            <Markdown source={shown.success_criteria} />
            {shown.checks.length > 0 && (
              <p className="text-12 text-ink-2">
                {counted(shown.checks.length, "check")} by rule; all must pass.
              </p>
            )}
          </Part>
          {task !== undefined && (
            <>
              <Judgements items={shown.judged} />
              <Iterations items={iterationsOf(task.iterations, shown.iterations)} />
              <TaskLinks task={task} />
              <Part title="Assigned to">
                <Assign task={task} />
              </Part>
            </>
          )}
        </>
      )}
    </Loaded>
  );
}
