import { inWords } from "@/client/http";
import { counted } from "@/projection/counted";
import { href } from "@/shell/route";
import { Link } from "@/shell/Link";
import { TONE_OF } from "@/shell/meaning";
import { dollars } from "@/ui/amounts";
import { Status } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { cx } from "@/ui/cx";
import { Skeleton } from "@/ui/Skeleton";
import { useOneStop } from "@/ui/useOneStop";
import { NewGoal } from "./NewGoal";
import { statusWord } from "./outcome";
import { type GoalLine, useGoals } from "./useGoals";

/** All goals, the newest first: what each is, where it stands and what it cost. */
export function GoalList({ current }: { readonly current: string | null }) {
  const stop = useOneStop<HTMLUListElement>();
  const { data, error, refetch } = useGoals();
  return (
    <nav
      aria-label="Goals"
      className={cx(
        "min-h-0 flex-col gap-1 border-line bg-panel p-2.5 @min-[720px]:flex @min-[720px]:border-r",
        current === null ? "flex" : "hidden",
      )}
    >
      <NewGoal />
      {error !== null && data === undefined ? (
        <p role="alert" className="p-2 text-12 text-ink-2">
          {inWords(error).title}{" "}
          <Button size="small" onClick={refetch}>
            Try again
          </Button>
        </p>
      ) : data === undefined ? (
        <Skeleton label="the goals" />
      ) : data.items.length === 0 ? (
        <p className="p-2 text-12 text-ink-2">No goal yet. Type one into the bar above and press Plan.</p>
      ) : (
        <ul {...stop} className="flex min-h-0 flex-col gap-0.5 overflow-auto scroll-thin">
          {data.items.map((one) => (
            <Line key={one.id} goal={one} isCurrent={one.id === current} />
          ))}
        </ul>
      )}
    </nav>
  );
}

function Line({ goal, isCurrent }: { readonly goal: GoalLine; readonly isCurrent: boolean }) {
  const { word, meaning } = statusWord(goal);
  return (
    <li>
      <Link
        to={href("goals", goal.id)}
        aria-current={isCurrent ? "page" : undefined}
        className={cx(
          "block rounded-control px-2 py-1.5 -outline-offset-2 hover:bg-panel-2",
          isCurrent && "bg-panel-2",
        )}
      >
        <span className="block truncate font-medium">{goal.goal ?? goal.id}</span>
        <span className="flex items-center gap-1 truncate text-11 text-ink-3">
          <Status tone={TONE_OF[meaning]}>{word}</Status>
          <span className="truncate">{about(goal)}</span>
        </span>
      </Link>
    </li>
  );
}

function about(goal: GoalLine): string {
  const parts = [
    goal.status === "completed" || goal.tasks === 0 ? "" : `${goal.done} of ${counted(goal.tasks, "task")}`,
    dollars(goal.cost_microusd),
  ];
  return `· ${parts.filter(Boolean).join(" · ")}`;
}
