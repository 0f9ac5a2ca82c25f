import { useState } from "react";
import { no } from "@/commands/command";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { TextField } from "@/ui/TextField";
import { type Chat, change } from "./api";
import { textOf } from "./names";

const SAMPLERS = [
  { name: "temperature", label: "Temperature" },
  { name: "top_p", label: "Top p" },
  { name: "min_p", label: "Min p" },
  { name: "frequency_penalty", label: "Frequency penalty" },
  { name: "presence_penalty", label: "Presence penalty" },
  { name: "max_output_tokens", label: "Tokens of a reply at most" },
] as const;

/** How replies are written: samplers of the main call, and the author's note. Empty takes a value away. */
export function SetupWriting({ chat }: { readonly chat: Chat }) {
  const { params, note } = chat.settings;
  const stored: Readonly<Record<string, string>> = {
    note: textOf(note, "prompt"),
    depth: String(note["depth"] ?? 4),
    ...Object.fromEntries(SAMPLERS.map(({ name }) => [name, String(params[name] ?? "")])),
  };
  const [edits, setEdits] = useState<Readonly<Record<string, string>>>({});
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const shown = (name: string) => edits[name] ?? stored[name] ?? "";
  const changed = Object.keys(edits).filter((name) => edits[name] !== stored[name]);
  const wrong = SAMPLERS.find(({ name }) => shown(name) !== "" && !Number.isFinite(Number(shown(name))));
  const field = (name: string) => ({
    value: shown(name),
    disabled: !may.ok,
    onChange: (event: { readonly target: { readonly value: string } }) =>
      setEdits((before) => ({ ...before, [name]: event.target.value })),
  });
  const save = () => {
    const samplers = changed.filter((name) => name !== "note" && name !== "depth");
    const wish = Object.fromEntries(
      samplers.map((name) => [name, shown(name).trim() === "" ? null : Number(shown(name))]),
    );
    const prompt = shown("note");
    return attempt(
      () =>
        change(chat.id, {
          ...(samplers.length > 0 && { params: wish as Chat["settings"]["params"] }),
          ...(changed.length > samplers.length && {
            note: prompt.trim() === "" ? null : { ...note, prompt, depth: Number(shown("depth")) },
          }),
        }),
      "Stored. It is in force at the next turn.",
    );
  };
  const maySave = !may.ok
    ? may
    : wrong !== undefined
      ? no(`${wrong.label}: a number, or nothing.`)
      : changed.length === 0
        ? no("Nothing was changed.")
        : may;
  return (
    <section aria-label="Writing" className="flex flex-col gap-3">
      <h3 className="text-12 text-ink-2">Samplers and the author's note</h3>
      <div className="grid grid-cols-2 gap-3">
        {SAMPLERS.map(({ name, label }) => (
          <TextField
            key={name}
            label={label}
            inputMode="decimal"
            placeholder="the model's own"
            {...field(name)}
          />
        ))}
      </div>
      <TextField label="Author's note" rows={2} {...field("note")} />
      <TextField label="Messages after the note" inputMode="numeric" {...field("depth")} />
      <ActionButton
        label="Store these"
        may={maySave}
        busy={busy}
        hint="In force at the next turn."
        onClick={() => void save()}
      />
    </section>
  );
}
