import type { ScreenProps } from "@/shell/screens";
import { EmptyState } from "@/ui/EmptyState";
import { TaskIcon } from "@/ui/icons/icons";
import { GoalList } from "./GoalList";
import { GoalPage } from "./GoalPage";
import { NewGoal } from "./NewGoal";
import { useGoals } from "./useGoals";

/** Goals: their list, and the page of the one that the address names, or of the newest. */
export default function GoalsScreen({ id }: ScreenProps) {
  const { data } = useGoals();
  const shown = id ?? data?.items[0]?.id ?? null;
  return (
    <div className="@container h-full">
      <h1 className="sr-only">Goals</h1>
      <div className="grid h-full grid-cols-1 @min-[720px]:grid-cols-[14rem_minmax(0,1fr)]">
        <GoalList current={id} />
        <div className={id === null ? "hidden min-h-0 @min-[720px]:block" : "min-h-0"}>
          {shown !== null ? (
            <GoalPage key={shown} id={shown} />
          ) : (
            data !== undefined && (
              <EmptyState
                title="Nobody works yet"
                icon={<TaskIcon size={28} />}
                action={<NewGoal label="Type a goal" variant="plain" />}
              >
                Type a goal into the bar above and press Plan: you see who would work on what before anything
                begins.
              </EmptyState>
            )
          )}
        </div>
      </div>
    </div>
  );
}
