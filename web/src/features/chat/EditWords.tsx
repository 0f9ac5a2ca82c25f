import { useState } from "react";
import { unless } from "@/commands/command";
import { href, navigate } from "@/shell/route";
import { useAttempt } from "@/shell/useAttempt";
import { ActionButton } from "@/shell/ActionButton";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/TextField";
import { type ChatTurn, edit, type Place } from "./api";
import { splitAttachments, withAttachments } from "./attachments";

interface EditWordsProps {
  readonly place: Place;
  readonly turn: ChatTurn;
  readonly onClose: () => void;
}

/** Other words for a turn; files that went along still do. */
export function EditWords({ place, turn, onClose }: EditWordsProps) {
  const before = splitAttachments(turn.said);
  const [words, setWords] = useState(before.words);
  const { busy, attempt } = useAttempt();
  const may = useMayAct();
  const submit = async () => {
    const text = withAttachments(words.trim(), before.attachments);
    const ok = await attempt(async () => {
      const { branch } = await edit(place, turn.number, text);
      navigate(href("chat", place.chat, { branch }));
    });
    if (ok) onClose();
  };
  return (
    <form
      className="flex flex-col gap-2 rounded-card bg-panel-2 p-3"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
      onKeyDown={(event) => event.key === "Escape" && onClose()}
    >
      <TextField
        label={`Other words for turn ${turn.number}`}
        rows={3}
        autoFocus
        value={words}
        onChange={(event) => setWords(event.target.value)}
        hint="Said on a new branch that begins before this turn; this branch stays as it is."
      />
      <div className="flex justify-end gap-2">
        <Button size="small" onClick={onClose}>
          Cancel
        </Button>
        <ActionButton
          label="Say it"
          size="small"
          variant="primary"
          type="submit"
          busy={busy}
          may={unless(
            may,
            (words.trim() === "" || words.trim() === before.words) && "Write other words first.",
          )}
        />
      </div>
    </form>
  );
}
