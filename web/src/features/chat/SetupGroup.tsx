import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { Select } from "@/ui/Select";
import { type Chat, change } from "./api";
import { nameOf } from "./names";

type Rule = Chat["settings"]["speaks"];

const RULES: readonly { readonly value: Rule; readonly label: string }[] = [
  { value: "list", label: "In the order of the list" },
  { value: "mention", label: "Who is named in what was said" },
  { value: "talkativeness", label: "Who is named, else drawn by talkativeness" },
  { value: "model", label: "The model chooses" },
];

/** The characters of a chat with several, and how the next of them is chosen. */
export function SetupGroup({ chat }: { readonly chat: Chat }) {
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const { group, speaks } = chat.settings;
  if (group.length === 0) return null;
  const without = (index: number) => group.filter((_, at) => at !== index);
  return (
    <section aria-label="Characters" className="flex flex-col gap-1.5">
      <h3 className="text-12 text-ink-2">Characters</h3>
      <ul className="divide-y divide-line rounded-card border border-line">
        {group.map((one, index) => (
          <li key={nameOf(one, String(index))} className="flex items-center gap-2 px-3 py-1.5 text-12">
            <span className="min-w-0 flex-1 truncate">{nameOf(one, "")}</span>
            <ActionButton
              label="Take away"
              size="small"
              may={may}
              busy={busy}
              onClick={() => void attempt(() => change(chat.id, { group: without(index) }))}
            />
          </li>
        ))}
      </ul>
      <Select
        label="Who speaks next"
        value={speaks}
        options={RULES}
        disabled={!may.ok || busy}
        onChange={(rule) => void attempt(() => change(chat.id, { speaks: rule }))}
      />
    </section>
  );
}
