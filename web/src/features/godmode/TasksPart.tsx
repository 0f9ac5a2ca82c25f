import { changed, withoutTask, withTask } from "./draft";
import { Entry, Part } from "./fields";
import type { PlanFormProps } from "./form";
import { TaskFields } from "./TaskFields";

export function TasksPart({ draft, mistakes, onChange }: PlanFormProps) {
  return (
    <Part
      title="Tasks"
      field="tasks"
      add="Add a task"
      onAdd={() => onChange(withTask(draft))}
      error={mistakes.get("tasks")}
    >
      {draft.tasks.map((task, index) => (
        <Entry
          key={task.slug}
          title={`Task ${task.slug}`}
          field={`tasks.${index}`}
          remove={`Remove task ${task.slug}`}
          onRemove={() => onChange(withoutTask(draft, task.slug))}
          error={mistakes.get(`tasks.${index}`)}
        >
          <TaskFields
            path={`tasks.${index}`}
            draft={draft}
            task={task}
            wrong={(field) => mistakes.get(`tasks.${index}.${field}`)}
            onChange={(fields) => onChange({ ...draft, tasks: changed(draft.tasks, index, fields) })}
          />
        </Entry>
      ))}
    </Part>
  );
}
