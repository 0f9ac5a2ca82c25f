import { ApiError, inWords } from "@/client/http";
import { NoSuch } from "@/shell/NoSuch";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { Answer } from "./Answer";
import { GoalHead } from "./GoalHead";
import { HowItCame } from "./HowItCame";
import { LiveWork } from "./LiveWork";
import { OutcomeCard } from "./OutcomeCard";
import { outcomeOf } from "./outcome";
import { useGoal } from "./useGoal";

/** One goal: its answer first, else why there is none and what helps; then how it came about. */
export function GoalPage({ id }: { readonly id: string }) {
  const { data: goal, error, refetch } = useGoal(id);
  if (error instanceof ApiError && error.status === 404) return <NoSuch what="goal" id={id} to="/" link="See all goals" />;
  if (goal === undefined) {
    return error === null ? (
      <Skeleton label="the goal" rows={6} />
    ) : (
      <ErrorState title={inWords(error).title} advice={inWords(error).advice} onRetry={refetch} />
    );
  }
  const outcome = outcomeOf(goal);
  return (
    <div className="flex h-full flex-col">
      <GoalHead goal={goal} judged={outcome.kind === "done"} />
      <div className="grid min-h-0 flex-1 auto-rows-max grid-cols-1 overflow-auto scroll-thin @min-[1000px]:auto-rows-[minmax(0,1fr)] @min-[1000px]:grid-cols-[minmax(0,1fr)_19rem] @min-[1000px]:overflow-hidden">
        <div className="@container min-w-0 overflow-x-clip px-5 py-5 @min-[1000px]:overflow-y-auto @min-[1000px]:px-8 @min-[1000px]:scroll-thin">
          <div className="flex flex-col gap-5">
            {outcome.kind !== "done" && <OutcomeCard goal={goal} outcome={outcome} />}
            <LiveWork goal={goal} />
            {(outcome.kind === "done" || goal.text !== "") && <Answer goal={goal} />}
          </div>
        </div>
        <HowItCame goal={goal} />
      </div>
    </div>
  );
}
