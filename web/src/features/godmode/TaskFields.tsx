import { counted } from "@/projection/counted";
import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";
import type { Draft, DraftTask } from "./draft";
import { Choices } from "./fields";
import { agentOptions } from "./form";

interface TaskFieldsProps {
  readonly draft: Draft;
  readonly task: DraftTask;
  readonly wrong: (field: string) => string | undefined;
  /** Where it stands in the plan: `tasks.0`. */
  readonly path: string;
  readonly onChange: (fields: Partial<DraftTask>) => void;
}

export function TaskFields({ draft, task, wrong, path, onChange }: TaskFieldsProps) {
  const checks = task.rest.checks?.length ?? 0;
  return (
    <>
      <TextField
        label="What is to be done"
        rows={2}
        value={task.goal}
        error={wrong("goal")}
        data-field={`${path}.goal`}
        onChange={(event) => onChange({ goal: event.target.value })}
      />
      <TextField
        label="It is done when"
        rows={3}
        value={task.criteria}
        error={wrong("success_criteria")}
        data-field={`${path}.success_criteria`}
        hint={checks > 0 ? `On top: ${counted(checks, "check")} by rule.` : undefined}
        onChange={(event) => onChange({ criteria: event.target.value })}
      />
      <div className="grid items-end gap-2 tablet:grid-cols-[1fr_120px]">
        <div className="flex flex-col gap-1" data-field={`${path}.agent`}>
          <Select
            label="Who works on it"
            value={task.agent}
            options={[...(task.agent === "" ? [{ value: "", label: "nobody" }] : []), ...agentOptions(draft)]}
            onChange={(agent) => onChange({ agent })}
          />
          {wrong("agent") !== undefined && <p className="text-12 text-bad">{wrong("agent")}</p>}
        </div>
        <TextField
          label="Iterations at most"
          inputMode="numeric"
          value={task.iterations}
          error={wrong("max_iterations")}
          data-field={`${path}.max_iterations`}
          onChange={(event) => onChange({ iterations: event.target.value.replace(/\D/g, "") })}
        />
      </div>
      <Choices
        label="Begins after"
        field={`${path}.depends_on`}
        empty="no other task is there"
        options={draft.tasks
          .filter((other) => other.slug !== task.slug)
          .map((other) => ({ value: other.slug, label: other.slug }))}
        chosen={task.dependsOn}
        error={wrong("depends_on")}
        onChange={(dependsOn) => onChange({ dependsOn })}
      />
    </>
  );
}
