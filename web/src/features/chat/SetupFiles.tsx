import { useState } from "react";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { Switch } from "@/ui/Switch";
import { type Chat, change, fileAddress, takeFile, takenWords } from "./api";
import { FileDrop } from "./FileDrop";
import { nameOf } from "./names";

/** Files of other programs for this chat, and the lorebooks that it looks into. */
export function SetupFiles({ chat }: { readonly chat: Chat }) {
  const place = { chat: chat.id, branch: chat.branch };
  const [asMember, setAsMember] = useState(false);
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const { lorebooks, prompts, char, group, user } = chat.settings;
  const names = (group.length > 0 ? group : [char]).map((one) => nameOf(one, ""));
  const saved = [
    ...names
      .filter((name) => name !== "")
      .map((name) => ({ kind: "character", name, label: `Save ${name} as a card` }) as const),
    ...(nameOf(user, "") === "" ? [] : [{ kind: "persona", name: "", label: "Save the persona" } as const]),
    { kind: "preset", name: "", label: "Save samplers and prompts as a preset" } as const,
  ].map(({ kind, name, label }) => ({ label, address: fileAddress(chat.id, kind, name) }));
  return (
    <section aria-label="Files" className="flex flex-col gap-1.5">
      <h3 className="text-12 text-ink-2">Cards, lorebooks, personas, presets, turns</h3>
      <FileDrop
        label="Take in a file"
        hint="Drop it here, or choose it. It is in force at the next turn."
        onFile={async (file) => takenWords(await takeFile(place, file, asMember))}
        className="rounded-card border border-dashed border-line"
      >
        <p className="px-2 pt-2 text-12 text-ink-3">Drop files here.</p>
      </FileDrop>
      <Switch
        label="A character joins the one there is"
        checked={asMember}
        onChange={setAsMember}
        disabled={!may.ok}
      />
      {lorebooks.length > 0 && (
        <ul aria-label="Lorebooks" className="divide-y divide-line rounded-card border border-line">
          {lorebooks.map((ref) => (
            <li key={ref} className="flex items-center gap-2 px-3 py-1.5 text-12">
              <span className="num min-w-0 flex-1 truncate">{ref}</span>
              <a
                href={fileAddress(chat.id, "lorebook", ref)}
                download
                aria-label={`Save the lorebook ${ref}`}
                className="text-accent underline"
              >
                Save
              </a>
              <ActionButton
                label="Take away"
                size="small"
                may={may}
                busy={busy}
                onClick={() =>
                  void attempt(() => change(chat.id, { lorebooks: lorebooks.filter((one) => one !== ref) }))
                }
              />
            </li>
          ))}
        </ul>
      )}
      {prompts.length > 0 && (
        <div className="flex items-center gap-2 text-12">
          <p className="min-w-0 flex-1 break-words text-ink-2">
            Order of the prompt:{" "}
            {prompts.map((one) => (one.place === "text" ? one.text.slice(0, 40) : one.place)).join(" · ")}
          </p>
          <ActionButton
            label="Take the usual order"
            size="small"
            may={may}
            busy={busy}
            onClick={() => void attempt(() => change(chat.id, { prompts: null }))}
          />
        </div>
      )}
      <ul aria-label="Files to save" className="flex flex-col gap-1 text-12">
        {saved.map(({ label, address }) => (
          <li key={label}>
            <a href={address} download className="text-accent underline">
              {label}
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
