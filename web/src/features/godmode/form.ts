import type { Draft, Mistakes } from "./draft";

export interface PlanFormProps {
  readonly draft: Draft;
  readonly mistakes: Mistakes;
  readonly onChange: (draft: Draft) => void;
}

export function agentOptions(draft: Draft) {
  return draft.agents.map((one) => ({ value: one.slug, label: one.name || one.slug }));
}
