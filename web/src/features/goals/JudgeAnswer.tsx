import { useState } from "react";
import { api, path } from "@/client/http";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { TextField } from "@/ui/TextField";
import type { Goal } from "./useGoals";

/** A person's word on the answer stands above the judge's. */
export function JudgeAnswer({ goal }: { readonly goal: Goal }) {
  const [isRejecting, setRejecting] = useState(false);
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const task = goal.tasks.find((one) => one.outputs.includes(goal.artifact ?? ""));
  if (task === undefined || goal.status !== "completed") return null;
  const said = task.judged.at(-1);
  const accept = () => api.post(`${path("tasks", task.id)}/accept`, { output: goal.artifact, note: "" });
  return (
    <div className="mt-auto flex flex-col gap-2">
      {said !== undefined && (
        <p className="text-12 text-ink-2">
          {said.by} has {said.accepted ? "accepted" : "rejected"} it.
        </p>
      )}
      <div className="flex gap-2 *:flex-1">
        <ActionButton label="Reject" may={may} onClick={() => setRejecting(true)} />
        <ActionButton
          label="Accept"
          may={may}
          busy={busy}
          onClick={() => void attempt(accept, "It is accepted.")}
        />
      </div>
      {isRejecting && (
        <RejectDialog task={task.id} output={goal.artifact ?? ""} onClose={() => setRejecting(false)} />
      )}
    </div>
  );
}

interface RejectDialogProps {
  readonly task: string;
  readonly output: string;
  readonly onClose: () => void;
}

function RejectDialog({ task, output, onClose }: RejectDialogProps) {
  const [note, setNote] = useState("");
  const { busy, attempt } = useAttempt();
  const reject = async () => {
    const asked = () => api.post(`${path("tasks", task)}/reject`, { output, note });
    if (await attempt(asked, "It is rejected. Retry lets its agent make it anew.")) onClose();
  };
  return (
    <Dialog
      title="Reject the answer"
      width="narrow"
      onClose={onClose}
      footer={
        <Button variant="danger" busy={busy} onClick={() => void reject()}>
          Reject
        </Button>
      }
    >
      <TextField
        label="Why: its agent reads this when the task is tried again"
        rows={3}
        maxLength={20_000}
        value={note}
        onChange={(event) => setNote(event.target.value)}
      />
    </Dialog>
  );
}
