import { useState } from "react";
import { api, path } from "@/client/http";
import type { Run, Task } from "@/projection/graph";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { ActionButton } from "@/shell/ActionButton";
import { taskCan, type TaskVerb } from "../commands";
import { CancelTask } from "./CancelTask";
import { JudgeOutput } from "./JudgeOutput";

interface TaskActionsProps {
  readonly task: Task;
  readonly run: Run | undefined;
}

/** What can be done with a task where it stands; only what would have an effect is offered. */
export function TaskActions({ task, run }: TaskActionsProps) {
  const [isAsking, setAsking] = useState(false);
  const [isJudging, setJudging] = useState(false);
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const can = (verb: TaskVerb) => taskCan(task, verb, run).ok;
  const post = (verb: TaskVerb, done: string) =>
    attempt(() => api.post(`${path("tasks", task.id)}/${verb}`), done);
  if (!can("start") && !can("retry") && !can("cancel") && !can("judge")) return null;
  return (
    <div role="group" aria-label="Task" className="flex flex-wrap gap-2">
      {can("start") && (
        <ActionButton
          label="Start task"
          size="small"
          busy={busy}
          may={may}
          onClick={() => void post("start", "Started")}
        />
      )}
      {can("retry") && (
        <ActionButton
          label="Retry task"
          size="small"
          busy={busy}
          may={may}
          onClick={() => void post("retry", "Retried")}
        />
      )}
      {can("cancel") && (
        <ActionButton
          label="Cancel task"
          size="small"
          variant="danger"
          may={may}
          onClick={() => setAsking(true)}
        />
      )}
      {can("judge") && (
        <ActionButton label="Judge output" size="small" may={may} onClick={() => setJudging(true)} />
      )}
      {isJudging && <JudgeOutput task={task} onClose={() => setJudging(false)} />}
      {isAsking && <CancelTask task={task} onClose={() => setAsking(false)} />}
    </div>
  );
}
