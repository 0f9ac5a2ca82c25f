import { useQuery } from "@tanstack/react-query";
import { api, inWords, path } from "@/client/http";
import { Pill } from "@/ui/Badge";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { type Hit, KEY } from "./useMemory";

const HITS_MAX = 50;

/** What the agent itself would find for these words, best first. */
export function Hits({ agent, words }: { readonly agent: string; readonly words: string }) {
  const query = useQuery({
    queryKey: [...KEY, "search", agent, words],
    queryFn: ({ signal }) =>
      api.get<{ readonly items: readonly Hit[] }>(
        `${path("memory", agent)}/search`,
        { q: words, limit: HITS_MAX },
        signal,
      ),
  });
  if (query.error !== null) {
    const { title, advice } = inWords(query.error);
    return <ErrorState title={title} advice={advice} onRetry={() => void query.refetch()} />;
  }
  if (query.data === undefined) return <Skeleton label="what is found" />;
  const hits = query.data.items;
  if (hits.length === 0) {
    return (
      <p className="text-ink-2">{agent} would find nothing for these words. Try what else it is about.</p>
    );
  }
  return (
    <>
      <p role="status" className="text-12 text-ink-2">
        {hits.length} {hits.length === 1 ? "hit" : "hits"} as {agent} would get them, best first
      </p>
      <ol className="divide-y divide-line rounded-card border border-line bg-panel">
        {hits.map((hit) => (
          <li key={`${hit.where} ${hit.id}`} className="flex items-start gap-3 px-3 py-2">
            <p className="min-w-0 flex-1 break-words whitespace-pre-wrap">{hit.text}</p>
            {hit.trust !== "trusted" && <Pill tone="warn">{hit.trust}</Pill>}
            <Pill>{hit.where}</Pill>
            <span className="num w-12 text-right text-ink-3" title="Comparable within one place only">
              {hit.score.toFixed(1)}
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}
