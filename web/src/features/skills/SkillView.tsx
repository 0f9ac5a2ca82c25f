import { useQuery } from "@tanstack/react-query";
import { api, inWords, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { Link } from "@/shell/Link";
import { Status } from "@/ui/Badge";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { dayAndTime } from "@/ui/time";
import { Decision } from "./Decision";
import { DiffText } from "./DiffText";
import { decidedBy, KEY, type SkillDetail, statusWords } from "./words";

/** What a skill says, what changed since it could last be used, and the decision about it. */
export function SkillView({ id }: { readonly id: string }) {
  const query = useQuery({
    queryKey: [...KEY, "of", id],
    queryFn: ({ signal }) => api.get<SkillDetail>(path("skills", id), {}, signal),
  });
  if (query.error !== null) {
    const { title, advice } = inWords(query.error);
    return <ErrorState title={title} advice={advice} onRetry={() => void query.refetch()} />;
  }
  if (query.data === undefined) return <Skeleton label="the skill" rows={8} />;
  const skill = query.data;
  const { word, tone } = statusWords(skill.status);
  return (
    <section aria-label={skill.skill} className="flex h-full flex-col gap-3 overflow-auto p-4 scroll-thin">
      <div>
        <Link to="/skills" className="text-accent underline tablet:hidden">
          All skills
        </Link>
        <div className="flex flex-wrap items-center gap-x-3">
          <h2 className="text-15">{skill.skill}</h2>
          <Status tone={tone}>{word}</Status>
        </div>
        <p className="text-12 text-ink-2">
          {skill.origin} from <span className="num">{skill.source}</span>, decided{" "}
          {decidedBy(skill.decided_by)}, {dayAndTime(skill.changed_us)}; definition{" "}
          <span className="num">{skill.hash.slice(0, 12)}</span>
        </p>
      </div>
      {skill.reasons.length > 0 && (
        <ul
          aria-label="Why it waits"
          className="list-disc shrink-0 rounded-card border border-warn py-2 pr-3 pl-7"
        >
          {skill.reasons.map((reason) => (
            <li key={reason}>{reason}</li>
          ))}
        </ul>
      )}
      {skill.note !== null && skill.note !== "" && (
        <p className="break-words whitespace-pre-wrap text-ink-2">Note: {skill.note}</p>
      )}
      <Decision key={skill.hash} skill={skill} />
      {skill.status !== "active" && <Difference skill={skill} />}
      <h3 className="text-13">Definition</h3>
      <pre
        role="region"
        aria-label="Definition"
        tabIndex={0}
        className="num shrink-0 overflow-auto rounded-control border border-line bg-paper p-3 whitespace-pre-wrap scroll-thin"
      >
        {skill.definition}
      </pre>
    </section>
  );
}

function Difference({ skill }: { readonly skill: SkillDetail }) {
  const query = useQuery({
    queryKey: [...KEY, "diff", skill.id, skill.hash],
    queryFn: ({ signal }) => api.get<Shape<"SkillDiff">>(`${path("skills", skill.id)}/diff`, {}, signal),
  });
  if (query.error !== null) {
    const { title, advice } = inWords(query.error);
    return (
      <p role="alert" className="text-warn">
        What changed is not known: {title} {advice}
      </p>
    );
  }
  if (query.data === undefined) return <Skeleton label="what changed" />;
  const { diff, files } = query.data;
  return (
    <>
      <h3 className="text-13">What changed since it could last be used</h3>
      {diff === "" ? (
        <p className="text-ink-2">
          {skill.active_hash === null ? "It could never be used before." : "Its definition is the same."}
        </p>
      ) : (
        <DiffText label="What changed" text={diff} />
      )}
      {files.length > 0 && (
        <ul className="list-disc pl-5">
          {files.map((file) => (
            <li key={file.path}>
              <span className="num">{file.path}</span> is {file.change}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
