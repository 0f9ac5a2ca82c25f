import { ActionButton } from "@/shell/ActionButton";
import { useMayAct } from "@/shell/useMayAct";
import { askGoal } from "@/shell/goalField";
import { AttachFile } from "./AttachFile";
import { questionThatWorks } from "./outcome";
import type { Goal } from "./useGoals";

/** Other words for the goal: first the question that works here, if the refusal names one, else its own. */
export function AskElse({ goal }: { readonly goal: Goal }) {
  const may = useMayAct();
  const question = questionThatWorks(goal);
  return (
    <div className="flex flex-wrap gap-2">
      {question !== "" && (
        <ActionButton
          label={`Ask: ${question}`}
          variant="primary"
          wraps
          may={may}
          onClick={() => askGoal(question)}
        />
      )}
      {goal.status === "blocked" && <AttachFile goal={goal} />}
      <ActionButton label="Ask in other words" may={may} onClick={() => askGoal(goal.goal ?? "")} />
    </div>
  );
}
