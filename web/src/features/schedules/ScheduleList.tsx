import { useInfiniteQuery } from "@tanstack/react-query";
import { api, inWords, type Page } from "@/client/http";
import { Link } from "@/shell/Link";
import { href } from "@/shell/route";
import { useRefresh } from "@/state/refresh";
import { Status } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { cx } from "@/ui/cx";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { useOneStop } from "@/ui/useOneStop";
import { dayAndTime } from "@/ui/time";
import { KEY, NEWS, type Schedule, standing, timesOf } from "./words";

/** All schedules, with their next times. */
export function ScheduleList({ current }: { readonly current: string | null }) {
  const stop = useOneStop<HTMLUListElement>();
  useRefresh(NEWS, KEY);
  const query = useInfiniteQuery({
    queryKey: [...KEY, "list"],
    queryFn: ({ pageParam, signal }) => api.get<Page<Schedule>>("/schedules", { after: pageParam }, signal),
    initialPageParam: 0 as string | number,
    getNextPageParam: (page) => page.next,
  });
  if (query.error !== null) {
    const { title, advice } = inWords(query.error);
    return <ErrorState title={title} advice={advice} onRetry={() => void query.refetch()} />;
  }
  if (query.data === undefined) return <Skeleton label="schedules" rows={6} />;
  const schedules = query.data.pages.flatMap((page) => page.items);
  if (schedules.length === 0) {
    return (
      <p className="px-4 py-2 text-ink-2">
        None yet. A schedule works on a goal again and again, such as every night at three.
      </p>
    );
  }
  return (
    <nav aria-label="Schedules">
      <ul {...stop}>
        {schedules.map((one) => (
          <li key={one.id}>
            <Link
              to={href("schedules", one.id)}
              aria-current={one.id === current ? "true" : undefined}
              className={cx(
                "flex min-h-11 flex-col justify-center px-4 py-1.5 -outline-offset-2 hover:bg-panel-2",
                one.id === current && "bg-panel-2 shadow-[inset_2px_0_0_var(--accent)]",
              )}
            >
              <span className="flex items-center gap-2">
                <span className="min-w-0 flex-1 truncate font-medium">{one.id}</span>
                <span className="shrink-0 text-12">
                  <Status tone={standing(one).tone}>{standing(one).word}</Status>
                </span>
              </span>
              <span className="num truncate text-ink-2">
                {timesOf(one)}
                {one.next_due_us !== null && `, next ${dayAndTime(one.next_due_us)}`}
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {query.hasNextPage && (
        <Button size="small" variant="quiet" className="m-2" onClick={() => void query.fetchNextPage()}>
          Show more schedules
        </Button>
      )}
    </nav>
  );
}
