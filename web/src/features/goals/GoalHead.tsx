import { href } from "@/shell/route";
import { Link } from "@/shell/Link";
import { TONE_OF } from "@/shell/meaning";
import { dollars } from "@/ui/amounts";
import { Status } from "@/ui/Badge";
import { BackIcon, CanvasIcon } from "@/ui/icons/icons";
import { judgedOf } from "./evidence";
import { statusWord } from "./outcome";
import type { Goal } from "./useGoals";
import { useGoalTask } from "./useGoal";

const LINK =
  "inline-flex h-8 shrink-0 items-center gap-1.5 rounded-control border border-line bg-panel-2 px-3 font-medium hover:border-edge";

/** The goal in words, where it stands, and the way to its canvas. */
export function GoalHead({ goal, judged }: { readonly goal: Goal; readonly judged: boolean }) {
  const { word, meaning } = statusWord(goal);
  return (
    <header className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b border-line bg-panel px-5 py-2.5">
      <Link to="/" className="text-accent @min-[720px]:hidden" aria-label="All goals">
        <BackIcon />
      </Link>
      <h2 className="line-clamp-2 min-w-50 flex-1 text-15 font-semibold break-words">
        {goal.goal ?? goal.id}
      </h2>
      <p role="status" className="flex items-center gap-1.5 text-12">
        <Status tone={TONE_OF[meaning]}>{word}</Status>
        <span className="text-ink-2">
          {judged ? <JudgedWords goal={goal} /> : `· ${dollars(goal.cost_microusd)}`}
        </span>
      </p>
      <Link to={href("canvas", goal.id)} className={LINK}>
        <CanvasIcon size={14} />
        Canvas
      </Link>
    </header>
  );
}

function JudgedWords({ goal }: { readonly goal: Goal }) {
  const last = goal.tasks.find((task) => task.outputs.includes(goal.artifact ?? ""));
  const { data } = useGoalTask(goal.id, last?.id ?? "");
  const { met, criteria } = judgedOf(data);
  return criteria === 0 ? `· ${dollars(goal.cost_microusd)}` : `· judged ${met} of ${criteria} criteria`;
}
