import { useQuery } from "@tanstack/react-query";
import { api, inWords, path } from "@/client/http";
import type { RunStatus } from "@/projection/graph";
import { runWords } from "@/projection/status";
import { Link } from "@/shell/Link";
import { href } from "@/shell/route";
import { TONE_OF } from "@/shell/meaning";
import { Status } from "@/ui/Badge";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { dayAndTime } from "@/ui/time";
import { Controls } from "./Controls";
import { type Firing, KEY, type ScheduleDetail, skipWords, overlapWords, standing, timesOf } from "./words";

/** One schedule: what it starts, when next, and how its runs went. */
export function ScheduleView({ id }: { readonly id: string }) {
  const query = useQuery({
    queryKey: [...KEY, "of", id],
    queryFn: ({ signal }) => api.get<ScheduleDetail>(path("schedules", id), {}, signal),
  });
  if (query.error !== null) {
    const { title, advice } = inWords(query.error);
    return <ErrorState title={title} advice={advice} onRetry={() => void query.refetch()} />;
  }
  if (query.data === undefined) return <Skeleton label="the schedule" rows={8} />;
  const schedule = query.data;
  const { word, tone } = standing(schedule);
  return (
    <section aria-label={schedule.id} className="flex h-full flex-col gap-3 overflow-auto p-4 scroll-thin">
      <div>
        <Link to="/schedules" className="text-accent underline tablet:hidden">
          All schedules
        </Link>
        <div className="flex flex-wrap items-center gap-x-3">
          <h2 className="text-15">{schedule.id}</h2>
          <Status tone={tone}>{word}</Status>
        </div>
        <p className="text-12 text-ink-2">
          <span className="num">{timesOf(schedule)}</span>
          {schedule.next_due_us !== null && `, next ${dayAndTime(schedule.next_due_us)}`}; made by{" "}
          {schedule.created_by}
        </p>
      </div>
      <p className="break-words whitespace-pre-wrap">{schedule.goal}</p>
      <p className="text-12 text-ink-2">
        {schedule.model}
        {schedule.budget_usd !== null && `, at most ${schedule.budget_usd} USD a run`},{" "}
        {overlapWords(schedule.overlap)}
        {schedule.max_failures > 0 && `, ${schedule.max_failures} failures in a row pause it`}
      </p>
      {schedule.last_skip !== null && (
        <p className="text-12 text-ink-2">
          {schedule.skipped} skipped, the last because {skipWords(schedule.last_skip)}
        </p>
      )}
      <Controls schedule={schedule} />
      <h3 className="text-13">Runs</h3>
      {schedule.runs.length === 0 && <p className="text-ink-2">It has not fired yet.</p>}
      <ul aria-label="Runs" className="flex flex-col">
        {schedule.runs.map((firing) => (
          <li key={firing.run_id} className="flex flex-wrap items-center gap-x-3 border-b border-line py-1.5">
            <FiringLine firing={firing} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function FiringLine({ firing }: { readonly firing: Firing }) {
  const { word, meaning } = runWords(firing.status as RunStatus);
  return (
    <>
      <span className="num min-w-0 flex-1 truncate max-tablet:basis-full">
        {firing.is_begun ? (
          <Link to={href("runs", firing.run_id)} className="text-accent underline">
            {firing.run_id}
          </Link>
        ) : (
          firing.run_id
        )}
      </span>
      <span className="num text-12 text-ink-2">
        {dayAndTime(firing.fired_us)}
        {firing.asked && `, asked by ${firing.by}`}
        {firing.missed > 0 && `, ${firing.missed} missed before`}
      </span>
      <Status tone={TONE_OF[meaning]}>{word}</Status>
      {(firing.message ?? firing.reason) !== null && (
        <span className="w-full text-12 text-ink-2">{firing.message ?? firing.reason}</span>
      )}
    </>
  );
}
