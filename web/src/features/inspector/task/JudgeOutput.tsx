import { useState } from "react";
import { api, path } from "@/client/http";
import { shortName } from "@/projection/event";
import type { Task } from "@/projection/graph";
import { useAttempt } from "@/shell/useAttempt";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";

interface JudgeOutputProps {
  readonly task: Task;
  readonly onClose: () => void;
}

/** Accepts or rejects an output in the name of whoever sits here. */
export function JudgeOutput({ task, onClose }: JudgeOutputProps) {
  const [note, setNote] = useState("");
  const [output, setOutput] = useState(task.outputs.at(-1) ?? "");
  const { busy, attempt } = useAttempt();
  const judge = async (verb: "accept" | "reject", done: string) => {
    const asked = () => api.post(`${path("tasks", task.id)}/${verb}`, { output, note });
    if (await attempt(asked, done)) onClose();
  };
  return (
    <Dialog
      title={`Judge ${shortName(task.id)}`}
      width="narrow"
      onClose={onClose}
      footer={
        <>
          <Button variant="danger" busy={busy} onClick={() => void judge("reject", "It is rejected.")}>
            Reject
          </Button>
          <Button variant="primary" busy={busy} onClick={() => void judge("accept", "It is accepted.")}>
            Accept
          </Button>
        </>
      }
    >
      <p className="mb-3 text-ink-2">
        Your word stands above the evaluator's: accepted, the task is done; rejected, it has failed and can be
        retried.
      </p>
      {task.outputs.length > 1 && (
        <Select
          label="Output"
          value={output}
          options={task.outputs.map((ref) => ({ value: ref, label: ref }))}
          onChange={setOutput}
        />
      )}
      <TextField
        label="Why"
        rows={3}
        maxLength={20_000}
        value={note}
        onChange={(event) => setNote(event.target.value)}
      />
    </Dialog>
  );
}
