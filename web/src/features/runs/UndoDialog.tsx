import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, inWords, path } from "@/client/http";
import { queryClient } from "@/client/queries";
import type { Shape } from "@/client/types";
import type { Run } from "@/projection/graph";
import { ActionButton } from "@/shell/ActionButton";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";
import { stepsQuery } from "./runQueries";
import { Undone } from "./Undone";

interface UndoDialogProps {
  readonly run: Run;
  readonly onSettle: () => void;
  readonly onClose: () => void;
}

/** Takes back what a run that has ended did outside, as far as its tools know how; then says what came of it. */
export function UndoDialog({ run, onSettle, onClose }: UndoDialogProps) {
  const [upto, setUpto] = useState("");
  const [note, setNote] = useState("");
  const may = useMayAct();
  const steps = useQuery(stepsQuery(run));
  const undo = useMutation({
    mutationFn: () =>
      api.post<Shape<"Compensated">>(`${path("runs", run.id)}/compensate`, {
        note: note.trim(),
        ...(upto !== "" && { upto }),
      }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["runs", run.id] }),
  });
  const failure = undo.isError ? inWords(undo.error) : null;
  const calls = (steps.data?.items ?? []).filter((one) => one.kind === "tool" && one.status === "completed");
  const isWaiting = undo.data !== undefined && undo.data.status !== "done";
  return (
    <Dialog
      title={`Undo what was done: ${run.id}`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{undo.data === undefined ? "Keep as it is" : "Close"}</Button>
          {(undo.data === undefined || isWaiting) && (
            <ActionButton
              label={isWaiting ? "Go on undoing" : "Undo it"}
              variant="danger"
              may={may}
              busy={undo.isPending}
              onClick={() => undo.mutate()}
            />
          )}
        </>
      }
    >
      <p className="mb-3 text-ink-2">
        Each tool that says how its calls are undone does so, the newest first, and once. What this run
        thought and wrote stays, and so does its cost.
      </p>
      <div aria-live="polite" className="flex flex-col gap-3">
        {failure !== null && (
          <p role="alert" className="text-bad">
            {failure.title} {failure.advice}
          </p>
        )}
        {undo.data === undefined ? (
          <>
            <Select
              label="How far back"
              value={upto}
              options={[
                { value: "", label: "Everything that it did" },
                ...calls.map(({ key }) => ({ value: key, label: `Back to ${key}, with it` })),
              ]}
              onChange={setUpto}
            />
            <TextField
              label="Why (optional)"
              rows={2}
              value={note}
              onChange={(event) => setNote(event.target.value)}
            />
          </>
        ) : (
          <Undone of={undo.data} onSettle={undo.data.held_by === run.id ? onSettle : null} />
        )}
      </div>
    </Dialog>
  );
}
