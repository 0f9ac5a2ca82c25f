import { inWords } from "@/client/http";
import { missionOf, shortName } from "@/projection/event";
import { href } from "@/shell/route";
import { Link } from "@/shell/Link";
import { Button } from "@/ui/Button";
import { cx } from "@/ui/cx";
import { EmptyState } from "@/ui/EmptyState";
import { ErrorState } from "@/ui/ErrorState";
import { AgentIcon, MemoryIcon } from "@/ui/icons/icons";
import { Skeleton } from "@/ui/Skeleton";
import { useOneStop } from "@/ui/useOneStop";
import { useAgents } from "./useAgents";

/** Whose memory is shown. */
export function AgentList({ current }: { readonly current: string | null }) {
  const stop = useOneStop<HTMLUListElement>();
  const { lines, isLoading, error, retry, hasMore, more } = useAgents();
  if (error !== null) {
    const { title, advice } = inWords(error);
    return <ErrorState title={title} advice={advice} onRetry={retry} />;
  }
  if (isLoading) return <Skeleton label="agents" rows={6} />;
  if (lines.length === 0) {
    return (
      <EmptyState title="No agent is there yet" icon={<MemoryIcon size={28} />}>
        Give a goal first: each agent that has worked can remember, and what it keeps is listed here.
      </EmptyState>
    );
  }
  return (
    <nav aria-label="Agents">
      <ul {...stop}>
        {lines.map(({ agent, entries }) => (
          <li key={agent}>
            <Link
              to={href("memory", agent)}
              aria-current={agent === current ? "true" : undefined}
              className={cx(
                "flex min-h-10 items-center gap-2.5 px-4 py-1.5 -outline-offset-2 hover:bg-panel-2",
                agent === current && "bg-panel-2 shadow-[inset_2px_0_0_var(--accent)]",
              )}
            >
              <span className="text-agent">
                <AgentIcon />
              </span>
              <span className="min-w-0 flex-1" title={agent}>
                <span className="block truncate">{shortName(agent)}</span>
                {missionOf(agent) !== "" && (
                  <span className="num block truncate text-ink-3">{missionOf(agent)}</span>
                )}
              </span>
              <span className="text-12 text-ink-3">
                {entries === null ? "nothing yet" : `${entries} ${entries === 1 ? "entry" : "entries"}`}
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {hasMore && (
        <Button size="small" variant="quiet" className="m-2" onClick={more}>
          Show more agents
        </Button>
      )}
    </nav>
  );
}
