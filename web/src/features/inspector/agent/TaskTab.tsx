import { useState } from "react";
import type { Shape } from "@/client/types";
import { shortName } from "@/projection/event";
import { useGraph } from "@/state/log";
import { EmptyState } from "@/ui/EmptyState";
import { Select } from "@/ui/Select";
import { TaskDetails } from "../task/TaskDetails";

interface TaskTabProps {
  readonly agent: Shape<"AgentShown">;
  readonly current: string;
}

/** The task that an agent works on, and a choice of its others. */
export function TaskTab({ agent, current }: TaskTabProps) {
  const graph = useGraph();
  const [chosen, setChosen] = useState("");
  const tasks = [...graph.tasks.values()].filter((task) => task.agent === agent.id).map((task) => task.id);
  const shown = tasks.includes(chosen) ? chosen : tasks.includes(current) ? current : tasks[0];
  if (shown === undefined) {
    return (
      <EmptyState title="No task">
        Give a goal in the bar above, or select a task and assign it to this agent.
      </EmptyState>
    );
  }
  return (
    <>
      {tasks.length > 1 && (
        <Select
          label={`One of its ${tasks.length} tasks`}
          value={shown}
          options={tasks.map((id) => ({
            value: id,
            label: `${shortName(id)} · ${graph.tasks.get(id)?.status ?? ""}`,
          }))}
          onChange={setChosen}
          className="px-4 pt-3"
        />
      )}
      <TaskDetails key={shown} id={shown} />
    </>
  );
}
