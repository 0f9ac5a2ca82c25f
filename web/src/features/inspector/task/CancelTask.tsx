import { useState } from "react";
import { api, path } from "@/client/http";
import { shortName } from "@/projection/event";
import type { Task } from "@/projection/graph";
import { useAttempt } from "@/shell/useAttempt";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { TextField } from "@/ui/TextField";

interface CancelTaskProps {
  readonly task: Task;
  readonly onClose: () => void;
}

/** Asks once more, because a cancelled task that had begun does not come back. */
export function CancelTask({ task, onClose }: CancelTaskProps) {
  const [note, setNote] = useState("");
  const { busy, attempt } = useAttempt();
  const cancel = async () => {
    if (await attempt(() => api.post(`${path("tasks", task.id)}/cancel`, { note }), "It is cancelled."))
      onClose();
  };
  return (
    <Dialog
      title={`Cancel ${shortName(task.id)}?`}
      width="narrow"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button variant="danger" busy={busy} onClick={() => void cancel()}>
            Cancel it for good
          </Button>
        </>
      }
    >
      <p className="mb-3 text-ink-2">
        Its run ends for good, and tasks that depend on it will not begin. What it has made stays.
      </p>
      <TextField
        label="Why, for the log"
        rows={2}
        maxLength={10_000}
        value={note}
        onChange={(event) => setNote(event.target.value)}
      />
    </Dialog>
  );
}
