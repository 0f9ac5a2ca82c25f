import { useState } from "react";
import { api, path } from "@/client/http";
import { shortName } from "@/projection/event";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { TextField } from "@/ui/TextField";
import type { Goal, GoalTask } from "./useGoals";

interface RetryWithNoteProps {
  readonly goal: Goal;
  readonly task: GoalTask | null;
  /** Whether that is what helps most. */
  readonly primary: boolean;
}

/** Gives a task what it lacked, in words, and lets it be worked on again, under its goal. */
export function RetryWithNote({ goal, task, primary }: RetryWithNoteProps) {
  const [note, setNote] = useState("");
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const run = task?.id ?? goal.id;
  const retry = async () => {
    await api.post(task === null ? `${path("runs", goal.id)}/retry` : `${path("tasks", task.id)}/retry`);
    // A task that goes on reads notes before its next decision.
    if (note.trim() !== "" && task !== null && task.run_status !== null)
      await api.post(`${path("runs", run)}/inject`, { note: note.trim() });
  };
  return (
    <form
      className="flex flex-wrap items-end gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        if (may.ok && !busy) void attempt(retry).then((isDone) => isDone && setNote(""));
      }}
    >
      {task !== null && task.run_status !== null && (
        <TextField
          label={`What ${shortName(task.id)} should know (optional)`}
          className="min-w-60 flex-1"
          maxLength={10_000}
          value={note}
          onChange={(event) => setNote(event.target.value)}
        />
      )}
      <ActionButton
        label={task === null ? "Retry" : `Retry ${shortName(task.id)}`}
        type="submit"
        variant={primary ? "primary" : "plain"}
        may={may}
        busy={busy}
      />
    </form>
  );
}
