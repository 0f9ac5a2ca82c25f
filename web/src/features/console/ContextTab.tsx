import type { PromptStep } from "@/projection/rowsPrompt";
import { called } from "@/state/called";
import { eventLog } from "@/state/log";
import { whole } from "@/ui/amounts";
import { EmptyState } from "@/ui/EmptyState";
import { Split } from "@/ui/Split";
import { type Column, Table } from "@/ui/Table";
import { clock } from "@/ui/time";
import { setConsole } from "./consoleStore";
import { ShownPrompt } from "./ShownPrompt";
import { usePrompts } from "./usePrompts";

const idOf = (step: PromptStep): string => `${step.runId} ${step.step}`;
const agentOf = (step: PromptStep): string =>
  called(eventLog.graph.runs.get(step.runId)?.agent || step.runId);

const COLUMNS: readonly Column<PromptStep>[] = [
  {
    id: "time",
    label: "Time",
    width: "76px",
    cell: (step) => clock(step.atUs),
    sortBy: (step) => step.position,
  },
  { id: "agent", label: "Agent", cell: agentOf, sortBy: agentOf },
  {
    id: "step",
    label: "Step",
    cell: (step) => <span className="num">{step.step}</span>,
    sortBy: (step) => step.step,
  },
  {
    id: "in",
    label: "Tokens in",
    align: "right",
    width: "84px",
    cell: (step) => (step.inputTokens === null ? "–" : whole(step.inputTokens)),
    sortBy: (step) => step.inputTokens ?? -1,
  },
  {
    id: "cached",
    label: "Cached",
    align: "right",
    width: "68px",
    cell: (step) => (step.cachedTokens === null ? "–" : whole(step.cachedTokens)),
    sortBy: (step) => step.cachedTokens ?? -1,
  },
];

/** Every prompt that was sent; the chosen one with all its parts. */
export function ContextTab() {
  const { all, shown, newest } = usePrompts();
  const step = shown ?? newest;
  if (step === undefined)
    return (
      <EmptyState title="No model was asked yet">
        Launch a goal: each prompt that is sent stands here, part by part and byte for byte.
      </EmptyState>
    );
  return (
    <Split
      label="Width of the list of prompts"
      initial={40}
      first={
        <Table
          label="Prompts"
          columns={COLUMNS}
          rows={all}
          rowId={idOf}
          selected={idOf(step)}
          onSelect={(one) =>
            setConsole({ looked: { runId: one.runId, step: one.step, position: one.position } })
          }
        />
      }
      second={<ShownPrompt key={idOf(step)} step={step} />}
    />
  );
}
