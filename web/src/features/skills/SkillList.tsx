import { inWords } from "@/client/http";
import { Link } from "@/shell/Link";
import { href } from "@/shell/route";
import { Status as StatusMark } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { cx } from "@/ui/cx";
import { EmptyState } from "@/ui/EmptyState";
import { ErrorState } from "@/ui/ErrorState";
import { ToolIcon } from "@/ui/icons/icons";
import { Skeleton } from "@/ui/Skeleton";
import { useOneStop } from "@/ui/useOneStop";
import { useSkills } from "./useSkills";
import { type Status, statusWords } from "./words";

interface SkillListProps {
  readonly status: Status | "";
  readonly current: string | null;
}

export function SkillList({ status, current }: SkillListProps) {
  const stop = useOneStop<HTMLUListElement>();
  const { skills, isLoading, error, retry, hasMore, more } = useSkills(status);
  if (error !== null) {
    const { title, advice } = inWords(error);
    return <ErrorState title={title} advice={advice} onRetry={retry} />;
  }
  if (isLoading) return <Skeleton label="skills" rows={6} />;
  if (skills.length === 0) {
    return (
      <EmptyState
        title={status === "" ? "No skill was seen yet" : "None of that status"}
        icon={<ToolIcon size={28} />}
      >
        {status === ""
          ? "Give a run a folder of skills or an MCP server as its source; whatever is listed for agents appears here."
          : "Choose another status above to see the others."}
      </EmptyState>
    );
  }
  return (
    <nav aria-label="Skills">
      <ul {...stop}>
        {skills.map((skill) => (
          <li key={skill.id}>
            <Link
              to={href("skills", skill.id, status === "" ? {} : { status })}
              aria-current={skill.id === current ? "true" : undefined}
              className={cx(
                "flex min-h-11 flex-col justify-center px-4 py-1.5 -outline-offset-2 hover:bg-panel-2",
                skill.id === current && "bg-panel-2 shadow-[inset_2px_0_0_var(--accent)]",
              )}
            >
              <span className="flex items-center gap-2">
                <span className="min-w-0 flex-1 truncate font-medium">{skill.skill}</span>
                <span className="shrink-0 text-12">
                  <StatusMark tone={statusWords(skill.status).tone}>
                    {statusWords(skill.status).word}
                  </StatusMark>
                </span>
              </span>
              <span className="num truncate text-ink-3">{skill.source}</span>
            </Link>
          </li>
        ))}
      </ul>
      {hasMore && (
        <Button size="small" variant="quiet" className="m-2" onClick={more}>
          Show more skills
        </Button>
      )}
    </nav>
  );
}
