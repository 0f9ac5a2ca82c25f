import { useMemo, useRef } from "react";
import { shortName } from "@/projection/event";
import { select } from "@/state/ui";
import { Button } from "@/ui/Button";
import { Markdown } from "@/ui/markdown/Markdown";
import { EvidenceNotes } from "./EvidenceNotes";
import { judgedOf } from "./evidence";
import type { Goal } from "./useGoals";
import { useGoalTask } from "./useGoal";
import { useMarks } from "./useMarks";

/** What a goal came to, whole, with the quotes by which it was judged beside it. */
export function Answer({ goal }: { readonly goal: Goal }) {
  const last = goal.tasks.find((task) => task.outputs.includes(goal.artifact ?? ""));
  const { data: task } = useGoalTask(goal.id, last?.id ?? "");
  const judged = useMemo(() => judgedOf(task), [task]);
  const article = useRef<HTMLElement>(null);
  const marks = useMarks(article, judged.evidence, goal.text);
  return (
    <div className="grid grid-cols-[minmax(0,44rem)] gap-x-7 gap-y-6 @min-[700px]:grid-cols-[minmax(0,40rem)_12rem]">
      <article
        ref={article}
        aria-label="Answer"
        className="goal-answer relative min-w-0 text-15 leading-relaxed"
      >
        {goal.text === "" ? (
          <p className="text-ink-2">What was made is no text. Open it below.</p>
        ) : (
          <Markdown source={goal.text} />
        )}
        {marks.map((mark) => (
          <sup
            key={mark.number}
            aria-hidden="true"
            className="num absolute -mt-1.5 text-11 font-semibold text-artifact"
            style={{ left: mark.x + 1, top: mark.y }}
          >
            {mark.number}
          </sup>
        ))}
        <Outputs refs={goal.outputs} />
      </article>
      {judged.evidence.length > 0 && <EvidenceNotes evidence={judged.evidence} marks={marks} />}
    </div>
  );
}

function Outputs({ refs }: { readonly refs: readonly string[] }) {
  if (refs.length === 0) return null;
  return (
    <p className="mt-4 flex flex-wrap items-center gap-2 text-13 text-ink-2">
      Kept as
      {refs.map((ref) => (
        <Button key={ref} size="small" onClick={() => select("artifact", ref.split("@")[0] ?? ref)}>
          {shortName(ref)}
        </Button>
      ))}
    </p>
  );
}
