import { ActionButton } from "@/shell/ActionButton";
import { useMayAct } from "@/shell/useMayAct";
import { askGoal } from "@/shell/goalField";
import type { Goal } from "./useGoals";

const QUESTION = /[Tt]ry:\s*(?:["“])?([^"”\n]+?\?)/u;

/** Other words for the goal: the question that would work here if the refusal names one, else its own. */
export function AskElse({ goal }: { readonly goal: Goal }) {
  const may = useMayAct();
  const suggested = QUESTION.exec(goal.message)?.[1];
  return (
    <div className="flex flex-wrap gap-2">
      {suggested !== undefined && (
        <ActionButton label={`Ask: ${suggested}`} may={may} onClick={() => askGoal(suggested)} />
      )}
      <ActionButton label="Ask in other words" may={may} onClick={() => askGoal(goal.goal ?? "")} />
    </div>
  );
}
