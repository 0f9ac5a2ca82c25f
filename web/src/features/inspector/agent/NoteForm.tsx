import { type FormEvent, useState } from "react";
import { unless } from "@/commands/command";
import { api, path } from "@/client/http";
import { useAttempt } from "@/shell/useAttempt";
import { ActionButton } from "@/shell/ActionButton";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/TextField";

interface NoteFormProps {
  readonly agent: string;
  readonly onDone: () => void;
}

/** Tells an agent something: it stands in the prompt of its next decision. */
export function NoteForm({ agent, onDone }: NoteFormProps) {
  const [note, setNote] = useState("");
  const { busy, attempt } = useAttempt();
  const may = useMayAct();
  const send = async (event: FormEvent) => {
    event.preventDefault();
    const ok = await attempt(
      () => api.post(`${path("agents", agent)}/note`, { note: note.trim() }),
      "The note waits for its next decision.",
    );
    if (ok) onDone();
  };
  return (
    <form className="flex flex-col gap-2" onSubmit={(event) => void send(event)}>
      <TextField
        label="Note to the agent"
        rows={3}
        maxLength={100_000}
        autoFocus
        value={note}
        hint="It reads this before its next decision, as words of a person."
        onChange={(event) => setNote(event.target.value)}
      />
      <div className="flex justify-end gap-2">
        <Button size="small" onClick={onDone}>
          Cancel
        </Button>
        <ActionButton
          label="Send note"
          size="small"
          variant="primary"
          type="submit"
          busy={busy}
          may={unless(may, note.trim() === "" && "Write the note first.")}
        />
      </div>
    </form>
  );
}
