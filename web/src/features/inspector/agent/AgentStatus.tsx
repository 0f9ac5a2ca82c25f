import type { Agent, Run, Task } from "@/projection/graph";
import { runWords, taskWords } from "@/projection/status";
import { TONE_OF } from "@/shell/meaning";
import { Status } from "@/ui/Badge";

interface AgentStatusProps {
  readonly agent: Agent | undefined;
  readonly run: Run | undefined;
  readonly task: Task | undefined;
}

/** "running · iteration 4 of 5": of its run while it is open, else of its task. */
export function AgentStatus({ agent, run, task }: AgentStatusProps) {
  const isOpen = run !== undefined && run.endedUs === null;
  const { word, meaning } = isOpen
    ? runWords(run.status)
    : task !== undefined
      ? taskWords(task)
      : { word: "idle", meaning: "quiet" as const };
  const max = agent?.iterationsMax ?? 0;
  return (
    <Status tone={TONE_OF[meaning]}>
      {word}
      {max > 0 && ` · iteration ${agent?.iteration ?? 0} of ${max}`}
    </Status>
  );
}
