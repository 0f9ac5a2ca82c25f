import { type FormEvent, useState } from "react";
import { unless } from "@/commands/command";
import { api, path } from "@/client/http";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { ActionButton } from "@/shell/ActionButton";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Slider } from "@/ui/Slider";
import { TextField } from "@/ui/TextField";
import { readAgain, type Entry } from "./useMemory";

interface RememberDialogProps {
  readonly agent: string;
  readonly onClose: () => void;
}

export function tagsOf(text: string): readonly string[] {
  return [...new Set(text.split(",").map((tag) => tag.trim()))].filter((tag) => tag !== "");
}

/** Has an agent remember something in a person's name. */
export function RememberDialog({ agent, onClose }: RememberDialogProps) {
  const [text, setText] = useState("");
  const [tags, setTags] = useState("");
  const [importance, setImportance] = useState(0.5);
  const { busy, attempt } = useAttempt();
  const may = useMayAct();

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (text.trim() === "") return;
    const isKept = await attempt(
      () => api.post<Entry>(path("memory", agent, "entries"), { text, tags: tagsOf(tags), importance }),
      (kept) =>
        kept.deduplicated
          ? { title: `${agent} knew that already.`, advice: "Nothing was kept twice." }
          : { title: `${agent} remembers it.` },
    );
    if (!isKept) return;
    readAgain();
    onClose();
  };

  return (
    <Dialog
      title={`Have ${agent} remember something`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <ActionButton
            label="Remember"
            type="submit"
            form="remember"
            variant="primary"
            busy={busy}
            may={unless(may, text.trim() === "" && "Write down what it is first.")}
          />
        </>
      }
    >
      <form id="remember" className="flex flex-col gap-3" onSubmit={(event) => void submit(event)}>
        <TextField
          label="What"
          rows={4}
          data-autofocus
          maxLength={100_000}
          value={text}
          hint="One fact in one entry is found best."
          onChange={(event) => setText(event.target.value)}
        />
        <TextField
          label="Tags"
          value={tags}
          hint="Separated by commas."
          onChange={(event) => setTags(event.target.value)}
        />
        <Slider
          label="Importance"
          min={0}
          max={1}
          step={0.1}
          value={importance}
          valueText={importance.toFixed(1)}
          onChange={setImportance}
        />
      </form>
    </Dialog>
  );
}
