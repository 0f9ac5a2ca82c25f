import { TextField } from "@/ui/TextField";
import { changed, withMembrane, withoutMembrane } from "./draft";
import { Choices, Entry, Part } from "./fields";
import { agentOptions, type PlanFormProps } from "./form";

export function MembraneFields({ draft, mistakes, onChange }: PlanFormProps) {
  return (
    <Part
      title="Membranes"
      field="membranes"
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
            field={`membranes.${index}`}
            remove={`Remove membrane ${membrane.slug}`}
            onRemove={() => onChange(withoutMembrane(draft, membrane.slug))}
            error={mistakes.get(`membranes.${index}`)}
          >
            <div className="grid gap-2 tablet:grid-cols-[1fr_120px]">
              <TextField
                label="Name"
                value={membrane.name}
                error={mistakes.get(`membranes.${index}.name`)}
                data-field={`membranes.${index}.name`}
                onChange={(event) => set({ name: event.target.value })}
              />
              <TextField
                label="Budget in USD"
                placeholder="no limit"
                inputMode="decimal"
                value={membrane.budget}
                error={mistakes.get(`membranes.${index}.budget_usd`)}
                data-field={`membranes.${index}.budget_usd`}
                onChange={(event) => set({ budget: event.target.value })}
              />
            </div>
            <Choices
              label="Members"
              field={`membranes.${index}.members`}
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
