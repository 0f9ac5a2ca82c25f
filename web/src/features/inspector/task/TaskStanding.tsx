import type { Run, Task } from "@/projection/graph";
import { TONE_OF } from "@/shell/meaning";
import { Status } from "@/ui/Badge";
import { taskSays } from "./words";

interface TaskStandingProps {
  readonly task: Task;
  readonly run: Run | undefined;
}

/** The status as a word of its own for each kind of end, and what it means. */
export function TaskStanding({ task, run }: TaskStandingProps) {
  const { word, meaning, sentence } = taskSays(task, run);
  return (
    <div role="status">
      <Status tone={TONE_OF[meaning]}>
        <span className="font-medium text-ink">{word}</span>
      </Status>
      <p className="mt-0.5 break-words text-ink-2">{sentence}</p>
    </div>
  );
}
