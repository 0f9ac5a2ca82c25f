import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";
import {
  changed,
  type Draft,
  type DraftAgent,
  type DraftTask,
  type Mistakes,
  withAgent,
  withMembrane,
  withoutAgent,
  withoutMembrane,
  withoutTask,
  withTask,
} from "./draft";
import { Choices, Entry, Part } from "./fields";

interface PlanFormProps {
  readonly draft: Draft;
  readonly mistakes: Mistakes;
  readonly onChange: (draft: Draft) => void;
}

function agentOptions(draft: Draft) {
  return draft.agents.map((one) => ({ value: one.slug, label: one.name || one.slug }));
}

/** Everything of a plan, to be changed. What is wrong stands beside its field. */
export function PlanForm(props: PlanFormProps) {
  return (
    <div className="flex flex-col gap-5">
      <Agents {...props} />
      <Tasks {...props} />
      <Membranes {...props} />
    </div>
  );
}

function Agents({ draft, mistakes, onChange }: PlanFormProps) {
  const set = (index: number, fields: Partial<DraftAgent>) =>
    onChange({ ...draft, agents: changed(draft.agents, index, fields) });
  return (
    <Part
      title="Agents"
      add="Add an agent"
      onAdd={() => onChange(withAgent(draft))}
      error={mistakes.get("agents")}
    >
      {draft.agents.map((agent, index) => {
        const wrong = (field: string) => mistakes.get(`agents.${index}.${field}`);
        return (
          <Entry
            key={agent.slug}
            title={`Agent ${agent.slug}`}
            remove={`Remove agent ${agent.slug}`}
            onRemove={() => onChange(withoutAgent(draft, agent.slug))}
            error={mistakes.get(`agents.${index}`)}
          >
            <div className="grid gap-2 tablet:grid-cols-[1fr_1fr_120px]">
              <TextField
                label="Name"
                value={agent.name}
                error={wrong("name")}
                onChange={(event) => set(index, { name: event.target.value })}
              />
              <TextField
                label="Model"
                placeholder="that of the goal"
                value={agent.model}
                error={wrong("model")}
                onChange={(event) => set(index, { model: event.target.value })}
              />
              <TextField
                label="Budget in USD"
                placeholder="no limit"
                inputMode="decimal"
                value={agent.budget}
                error={wrong("budget_usd")}
                onChange={(event) => set(index, { budget: event.target.value })}
              />
            </div>
            <TextField
              label="Who it is"
              rows={2}
              value={agent.role}
              error={wrong("role")}
              onChange={(event) => set(index, { role: event.target.value })}
            />
            <TextField
              label="Tools"
              hint="Names with commas between them; none: all that are on by default."
              value={agent.tools}
              error={wrong("tools")}
              onChange={(event) => set(index, { tools: event.target.value })}
            />
          </Entry>
        );
      })}
    </Part>
  );
}

function Tasks({ draft, mistakes, onChange }: PlanFormProps) {
  return (
    <Part
      title="Tasks"
      add="Add a task"
      onAdd={() => onChange(withTask(draft))}
      error={mistakes.get("tasks")}
    >
      {draft.tasks.map((task, index) => (
        <Entry
          key={task.slug}
          title={`Task ${task.slug}`}
          remove={`Remove task ${task.slug}`}
          onRemove={() => onChange(withoutTask(draft, task.slug))}
          error={mistakes.get(`tasks.${index}`)}
        >
          <TaskFields
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

interface TaskFieldsProps {
  readonly draft: Draft;
  readonly task: DraftTask;
  readonly wrong: (field: string) => string | undefined;
  readonly onChange: (fields: Partial<DraftTask>) => void;
}

function TaskFields({ draft, task, wrong, onChange }: TaskFieldsProps) {
  const checks = task.rest.checks?.length ?? 0;
  return (
    <>
      <TextField
        label="What is to be done"
        rows={2}
        value={task.goal}
        error={wrong("goal")}
        onChange={(event) => onChange({ goal: event.target.value })}
      />
      <TextField
        label="It is done when"
        rows={3}
        value={task.criteria}
        error={wrong("success_criteria")}
        hint={checks > 0 ? `${checks} checks by rule come on top.` : undefined}
        onChange={(event) => onChange({ criteria: event.target.value })}
      />
      <div className="grid items-end gap-2 tablet:grid-cols-[1fr_120px]">
        <div className="flex flex-col gap-1">
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
          onChange={(event) => onChange({ iterations: event.target.value })}
        />
      </div>
      <Choices
        label="Begins after"
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

function Membranes({ draft, mistakes, onChange }: PlanFormProps) {
  return (
    <Part
      title="Membranes"
      add="Add a membrane"
      onAdd={() => onChange(withMembrane(draft))}
      note={draft.membranes.length === 0 ? "Without any, all agents share one." : undefined}
    >
      {draft.membranes.map((membrane, index) => {
        const set = (fields: Partial<(typeof draft.membranes)[number]>) =>
          onChange({ ...draft, membranes: changed(draft.membranes, index, fields) });
        return (
          <Entry
            key={membrane.slug}
            title={`Membrane ${membrane.slug}`}
            remove={`Remove membrane ${membrane.slug}`}
            onRemove={() => onChange(withoutMembrane(draft, membrane.slug))}
            error={mistakes.get(`membranes.${index}`)}
          >
            <div className="grid gap-2 tablet:grid-cols-[1fr_120px]">
              <TextField
                label="Name"
                value={membrane.name}
                error={mistakes.get(`membranes.${index}.name`)}
                onChange={(event) => set({ name: event.target.value })}
              />
              <TextField
                label="Budget in USD"
                placeholder="no limit"
                inputMode="decimal"
                value={membrane.budget}
                error={mistakes.get(`membranes.${index}.budget_usd`)}
                onChange={(event) => set({ budget: event.target.value })}
              />
            </div>
            <Choices
              label="Members"
              empty="no agent is there"
              options={agentOptions(draft)}
              chosen={membrane.members}
              error={mistakes.get(`membranes.${index}.members`)}
              onChange={(members) => set({ members })}
            />
          </Entry>
        );
      })}
    </Part>
  );
}
