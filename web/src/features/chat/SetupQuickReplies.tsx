import { useState } from "react";
import { ActionButton } from "@/shell/ActionButton";
import { unless } from "@/commands/command";
import { useMayAct } from "@/shell/useMayAct";
import { useAttempt } from "@/shell/useAttempt";
import { TextField } from "@/ui/TextField";
import { type Chat, change } from "./api";

type Kept = readonly { readonly label: string; readonly text: string }[];

/** The quick replies of a chat: kept, changed, put in another order and forgotten. */
export function SetupQuickReplies({ chat }: { readonly chat: Chat }) {
  const kept: Kept = chat.settings.quick_replies;
  const [label, setLabel] = useState("");
  const [text, setText] = useState("");
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const name = label.trim();
  const isKnown = kept.some((one) => one.label === name);
  const store = (wish: Kept) => attempt(() => change(chat.id, { quick_replies: [...wish] }));
  const add = async () => {
    const own = { label: name, text: text.trim() };
    const ok = await store(isKnown ? kept.map((one) => (one.label === name ? own : one)) : [...kept, own]);
    if (ok) {
      setLabel("");
      setText("");
    }
  };
  const raised = (index: number) =>
    kept.map((one, at) => kept[at === index ? at - 1 : at === index - 1 ? index : at] ?? one);
  return (
    <section aria-label="Quick replies of the chat" className="flex flex-col gap-1.5">
      <h3 className="text-12 text-ink-2">Quick replies</h3>
      {kept.length > 0 && (
        <ul className="divide-y divide-line rounded-card border border-line">
          {kept.map((one, index) => (
            <li
              key={one.label}
              aria-label={one.label}
              className="flex items-center gap-1.5 px-3 py-1.5 text-12"
            >
              <span className="min-w-0 flex-1">
                <span className="block truncate">{one.label}</span>
                <span className="block truncate text-11 text-ink-3">{one.text}</span>
              </span>
              {index > 0 && (
                <ActionButton
                  label="Up"
                  size="small"
                  may={may}
                  busy={busy}
                  onClick={() => void store(raised(index))}
                />
              )}
              <ActionButton
                label="Change"
                size="small"
                may={may}
                onClick={() => {
                  setLabel(one.label);
                  setText(one.text);
                }}
              />
              <ActionButton
                label="Forget"
                size="small"
                may={may}
                busy={busy}
                onClick={() => void store(kept.filter((other) => other !== one))}
              />
            </li>
          ))}
        </ul>
      )}
      <form
        className="flex flex-col gap-1.5"
        onSubmit={(event) => {
          event.preventDefault();
          if (may.ok && name !== "" && text.trim() !== "") void add();
        }}
      >
        <TextField
          label="Label of a quick reply"
          value={label}
          maxLength={60}
          disabled={!may.ok}
          onChange={(event) => setLabel(event.target.value)}
        />
        <TextField
          label="Words that it says"
          rows={2}
          value={text}
          disabled={!may.ok}
          onChange={(event: { readonly target: { readonly value: string } }) => setText(event.target.value)}
        />
        <ActionButton
          label={isKnown ? "Keep the change" : "Keep it"}
          size="small"
          type="submit"
          busy={busy}
          may={unless(may, (name === "" || text.trim() === "") && "A label and words are needed.")}
        />
      </form>
    </section>
  );
}
