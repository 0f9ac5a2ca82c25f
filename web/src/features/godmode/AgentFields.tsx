import { TextField } from "@/ui/TextField";
import { changed, type DraftAgent, withAgent, withoutAgent } from "./draft";
import { Entry, Part } from "./fields";
import { ModelList } from "./ModelList";
import { ToolPicker } from "./ToolPicker";
import type { PlanFormProps } from "./form";

export function AgentFields({ draft, mistakes, onChange }: PlanFormProps) {
  const set = (index: number, fields: Partial<DraftAgent>) =>
    onChange({ ...draft, agents: changed(draft.agents, index, fields) });
  return (
    <Part
      title="Agents"
      field="agents"
      add="Add an agent"
      onAdd={() => onChange(withAgent(draft))}
      error={mistakes.get("agents")}
    >
      <ModelList />
      {draft.agents.map((agent, index) => {
        const at = (field: string) => ({
          error: mistakes.get(`agents.${index}.${field}`),
          "data-field": `agents.${index}.${field}`,
        });
        return (
          <Entry
            key={agent.slug}
            title={`Agent ${agent.slug}`}
            field={`agents.${index}`}
            remove={`Remove agent ${agent.slug}`}
            onRemove={() => onChange(withoutAgent(draft, agent.slug))}
            error={mistakes.get(`agents.${index}`)}
          >
            <div className="grid gap-2 tablet:grid-cols-[1fr_1fr_120px]">
              <TextField
                label="Name"
                value={agent.name}
                {...at("name")}
                onChange={(event) => set(index, { name: event.target.value })}
              />
              <TextField
                label="Model"
                placeholder="that of the goal"
                list="plan-models"
                value={agent.model}
                {...at("model")}
                onChange={(event) => set(index, { model: event.target.value })}
              />
              <TextField
                label="Budget in USD"
                placeholder="no limit"
                inputMode="decimal"
                value={agent.budget}
                {...at("budget_usd")}
                onChange={(event) => set(index, { budget: event.target.value })}
              />
            </div>
            <TextField
              label="Who it is"
              rows={2}
              value={agent.role}
              {...at("role")}
              onChange={(event) => set(index, { role: event.target.value })}
            />
            <ToolPicker
              field={`agents.${index}.tools`}
              chosen={agent.tools.split(/[\s,]+/).filter(Boolean)}
              error={mistakes.get(`agents.${index}.tools`)}
              onChange={(tools) => set(index, { tools: tools.join(", ") })}
            />
          </Entry>
        );
      })}
    </Part>
  );
}
