import { useState } from "react";
import { unless } from "@/commands/command";
import type { Run } from "@/projection/graph";
import { ActionButton } from "@/shell/ActionButton";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { TextField } from "@/ui/TextField";
import { useVerb } from "./useVerb";

interface NoteDialogProps {
  readonly run: Run;
  readonly verb: "inject" | "cancel";
  readonly onClose: () => void;
}

const WORDS = {
  inject: {
    title: "Leave a note",
    says: "The run reads it at its next cycle. It stays in the log, with your name.",
    label: "Note",
    confirm: "Leave the note",
  },
  cancel: {
    title: "Cancel this run",
    says: "It ends for good, and all that it started with it. What was produced stays, and so does its cost.",
    label: "Why (optional)",
    confirm: "Cancel the run",
  },
} as const;

/** A text for the log, and what becomes of the run. */
export function NoteDialog({ run, verb, onClose }: NoteDialogProps) {
  const [note, setNote] = useState("");
  const action = useVerb(run.id);
  const may = useMayAct();
  const words = WORDS[verb];
  const submit = () => action.mutate({ verb, body: { note } }, { onSuccess: onClose });
  return (
    <Dialog
      title={`${words.title}: ${run.id}`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <ActionButton
            label={words.confirm}
            variant={verb === "cancel" ? "danger" : "primary"}
            busy={action.isPending}
            may={unless(may, verb === "inject" && note.trim() === "" && "Write the note first.")}
            onClick={submit}
          />
        </>
      }
    >
      <p className="mb-3 text-ink-2">{words.says}</p>
      <TextField
        label={words.label}
        rows={3}
        data-autofocus
        value={note}
        onChange={(event) => setNote(event.target.value)}
      />
    </Dialog>
  );
}
