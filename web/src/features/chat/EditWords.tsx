import { useState } from "react";
import { unless } from "@/commands/command";
import { href, navigate } from "@/shell/route";
import { useAttempt } from "@/shell/useAttempt";
import { ActionButton } from "@/shell/ActionButton";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/TextField";
import { type ChatTurn, edit, type Place, rerun, revise } from "./api";
import { splitAttachments, withAttachments } from "./attachments";

/** What is written anew: on a branch of its own, in its place, or as words of another variant. */
export type Edited = "branch" | "user" | "assistant" | "again";

const KINDS: Readonly<Record<Edited, { label: string; hint: string; verb: string }>> = {
  branch: {
    label: "Other words for",
    hint: "Said on a new branch that begins before this turn; this branch stays as it is.",
    verb: "Say it",
  },
  user: {
    label: "Your words of",
    hint: "The turns after it stay; later prompts have the new words.",
    verb: "Store",
  },
  assistant: {
    label: "The reply of",
    hint: "The turns after it stay; later prompts have the new words, and state made of the old ones stays.",
    verb: "Store",
  },
  again: {
    label: "Words to run again",
    hint: "Another variant of this turn, with the state from before it. What came after stays with the old one.",
    verb: "Run it again",
  },
};

interface EditWordsProps {
  readonly place: Place;
  readonly turn: ChatTurn;
  readonly kind: Edited;
  readonly onClose: () => void;
}

/** Other words for a message of a turn; files that went along still do. */
export function EditWords({ place, turn, kind, onClose }: EditWordsProps) {
  const selected = turn.variants.find((one) => one.number === turn.selected);
  const before = splitAttachments(kind === "assistant" ? (selected?.text ?? "") : turn.said);
  const { label, hint, verb } = KINDS[kind];
  const [words, setWords] = useState(before.words);
  const { busy, attempt } = useAttempt();
  const may = useMayAct();
  const submit = async () => {
    const text = withAttachments(words.trim(), before.attachments);
    const ok = await attempt(async () => {
      if (kind === "again") await rerun(place, turn.number, text === turn.said ? "" : text);
      else if (kind !== "branch") await revise(place, turn.number, kind, text);
      else {
        const { branch } = await edit(place, turn.number, text);
        navigate(href("chat", place.chat, { branch }));
      }
    });
    if (ok) onClose();
  };
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- Escape in any of its fields
    <form
      className="flex flex-col gap-2 rounded-card bg-panel-2 p-3"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
      onKeyDown={(event) => event.key === "Escape" && onClose()}
    >
      <TextField
        label={`${label} turn ${turn.number}`}
        rows={kind === "assistant" ? 8 : 3}
        autoFocus
        value={words}
        onChange={(event: { readonly target: { readonly value: string } }) => setWords(event.target.value)}
        hint={hint}
      />
      <div className="flex justify-end gap-2">
        <Button size="small" onClick={onClose}>
          Cancel
        </Button>
        <ActionButton
          label={verb}
          size="small"
          variant="primary"
          type="submit"
          busy={busy}
          may={unless(
            may,
            (words.trim() === "" || (kind !== "again" && words.trim() === before.words)) &&
              "Write other words first.",
          )}
        />
      </div>
    </form>
  );
}
