import { useInfiniteQuery } from "@tanstack/react-query";
import { api, inWords, path } from "@/client/http";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { ActionButton } from "@/shell/ActionButton";
import { Button } from "@/ui/Button";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { dayAndTime } from "@/ui/time";
import { type Change, KEY, readAgain } from "./useMemory";

/** What was changed, by whom, and the way back. */
export function Changes({ agent }: { readonly agent: string }) {
  const query = useInfiniteQuery({
    queryKey: [...KEY, "changes", agent],
    queryFn: ({ pageParam, signal }) =>
      api.get<{ readonly items: readonly Change[]; readonly next: number | null }>(
        `${path("memory", agent)}/changes`,
        { before: pageParam },
        signal,
      ),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next,
  });
  if (query.error !== null) {
    const { title, advice } = inWords(query.error);
    return <ErrorState title={title} advice={advice} onRetry={() => void query.refetch()} />;
  }
  if (query.data === undefined) return <Skeleton label="changes" rows={6} />;
  const changes = query.data.pages.flatMap((page) => page.items);
  if (changes.length === 0) {
    return (
      <p className="p-4 text-ink-2">Nothing was changed yet. Each change will stand here with its undo.</p>
    );
  }
  return (
    <div className="flex flex-col gap-3 p-4">
      <ul className="divide-y divide-line rounded-card border border-line bg-panel">
        {changes.map((change) => (
          <ChangeRow key={change.id} agent={agent} change={change} />
        ))}
      </ul>
      {query.hasNextPage && (
        <Button
          className="self-center"
          busy={query.isFetchingNextPage}
          onClick={() => void query.fetchNextPage()}
        >
          Show older changes
        </Button>
      )}
    </div>
  );
}

function ChangeRow({ agent, change }: { readonly agent: string; readonly change: Change }) {
  const { busy, attempt } = useAttempt();
  const may = useMayAct();
  const undo = async () => {
    await attempt(
      () => api.post(`${path("memory", agent)}/changes/${change.id}/undo`),
      () => ({ title: "It is taken back." }),
    );
    readAgain();
  };
  return (
    <li className="flex items-start gap-3 px-3 py-2">
      <span className="num w-8 shrink-0 text-ink-3">{change.id}</span>
      <div className="min-w-0 flex-1">
        <p className="break-words">{change.summary}</p>
        <p className="text-12 text-ink-3">
          {dayAndTime(change.at_us)}, by {change.by}
          {change.run_id !== null && ` in run ${change.run_id}`}
        </p>
      </div>
      {change.undone_by === null ? (
        <ActionButton
          label="Undo"
          size="small"
          busy={busy}
          may={may}
          name={`Undo change ${change.id}`}
          onClick={() => void undo()}
        />
      ) : (
        <span className="text-12 text-ink-3">taken back by {change.undone_by}</span>
      )}
    </li>
  );
}
