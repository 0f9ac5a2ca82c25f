import { useQuery } from "@tanstack/react-query";
import { inWords } from "@/client/http";
import type { Shape } from "@/client/types";
import { whole } from "@/ui/amounts";
import { cx } from "@/ui/cx";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { promptDiffQuery, type StepName } from "./requests";

interface PromptDifferenceProps extends StepName {
  /** Key of the step before; "" for the first prompt of a run. */
  readonly previous: string;
}

/** What changed since the prompt before, and what that did to the cache. */
export function PromptDifference({ runId, step, previous }: PromptDifferenceProps) {
  const diff = useQuery(promptDiffQuery({ runId, step }, previous));
  if (previous === "")
    return <p className="py-2 text-ink-2">This is the first prompt of its run: there is none before it.</p>;
  if (diff.isPending) return <Skeleton label="the difference" rows={5} />;
  if (diff.isError) return <ErrorState {...inWords(diff.error)} onRetry={() => void diff.refetch()} />;
  const changed = diff.data.parts.filter((part) => part.change !== "same");
  return (
    <div className="flex flex-col gap-1.5 py-1 text-12">
      <p className="text-ink-2">{kept(diff.data)}</p>
      {changed.length > 0 && (
        <ul className="flex flex-wrap gap-x-4">
          {changed.map((part, index) => (
            <li key={index}>
              {part.tag} <span className="text-ink-3">{part.change}</span>
            </li>
          ))}
        </ul>
      )}
      <DiffText text={diff.data.diff} />
    </div>
  );
}

function kept(diff: Shape<"PromptDiff">): string {
  const words = `Since ${diff.a}: ${whole(diff.shared_tokens)} of its ${whole(diff.previous_tokens)} cacheable tokens stand here unchanged.`;
  return diff.broken_by === null ? words : `${words} The prefix ends at ${diff.broken_by}: ${diff.why}.`;
}

/** A unified diff, its lines told apart by their sign and by colour. */
export function DiffText({ text }: { readonly text: string }) {
  if (text === "") return <p className="text-ink-2">Both read the same.</p>;
  return (
    <pre
      aria-label="Difference, line by line"
      className="num rounded-control border border-line bg-paper p-2 break-words whitespace-pre-wrap"
    >
      {text.split("\n").map((line, index) => (
        <span key={index} className={cx("block", colourOf(line))}>
          {line === "" ? " " : line}
        </span>
      ))}
    </pre>
  );
}

function colourOf(line: string): string {
  if (line.startsWith("@@") || line.startsWith("+++") || line.startsWith("---")) return "text-ink-3";
  if (line.startsWith("+")) return "text-money";
  return line.startsWith("-") ? "text-bad" : "";
}
