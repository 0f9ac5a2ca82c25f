import { useState } from "react";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { no } from "@/commands/command";
import { TextField } from "@/ui/TextField";
import { type Chat, change, exportAddress, turnsAddress } from "./api";
import { nameOf, textOf } from "./names";
import { ProfilePicker } from "./ProfilePicker";
import { Keeping } from "./Keeping";
import { Sessions } from "./Sessions";
import { SetupFiles } from "./SetupFiles";
import { SetupGroup } from "./SetupGroup";
import { SetupQuickReplies } from "./SetupQuickReplies";
import { SetupWriting } from "./SetupWriting";

/** What the chat is set up with. A change is in force at the next turn. */
export function SetupTab({ chat }: { readonly chat: Chat }) {
  const { settings } = chat;
  const stored = {
    model: settings.model,
    user: nameOf(settings.user, ""),
    char: nameOf(settings.char, ""),
    description: textOf(settings.char, "description"),
    system: settings.system,
    scenario: settings.scenario ?? "",
    history: String(settings.history_max),
  };
  const [edits, setEdits] = useState<Partial<typeof stored>>({});
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const shown = { ...stored, ...edits };
  const isChanged = Object.entries(edits).some(
    ([name, value]) => stored[name as keyof typeof stored] !== value,
  );
  const history = Number(shown.history);
  const historyError =
    Number.isInteger(history) && history >= 1 && history <= 10_000 ? undefined : "A number from 1 to 10,000.";
  const field = (name: keyof typeof stored) => ({
    value: shown[name],
    disabled: !may.ok,
    onChange: (event: { readonly target: { readonly value: string } }) =>
      setEdits((before) => ({ ...before, [name]: event.target.value })),
  });
  const save = async () => {
    const user = { ...settings.user, name: shown.user };
    const char = { ...settings.char, name: shown.char, description: shown.description };
    const ok = await attempt(
      () =>
        change(chat.id, {
          ...(shown.model !== stored.model && { model: shown.model }),
          ...(shown.system !== stored.system && { system: shown.system }),
          ...(shown.scenario !== stored.scenario && { scenario: shown.scenario }),
          ...(shown.user !== stored.user && { user }),
          ...((shown.char !== stored.char || shown.description !== stored.description) && { char }),
          ...(shown.history !== stored.history && { history_max: history }),
        }),
      "Stored. It is in force at the next turn.",
    );
    if (ok) setEdits({});
  };
  const maySave = !may.ok
    ? may
    : !isChanged
      ? no("Nothing was changed.")
      : historyError === undefined
        ? may
        : no(historyError);
  return (
    <div className="flex flex-col gap-4 p-3">
      <ProfilePicker
        value={settings.profile.split("@", 1)[0] ?? ""}
        disabled={!may.ok || busy}
        onChange={(profile) =>
          void attempt(
            () => change(chat.id, { profile: profile === "" ? null : profile }),
            "The profile is in force at the next turn.",
          )
        }
      />
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (maySave.ok) void save();
        }}
      >
        <TextField label="Model" {...field("model")} />
        <TextField label="Your name" {...field("user")} />
        <TextField label="Name of the character" {...field("char")} />
        <TextField label="Who the character is" rows={3} {...field("description")} />
        <TextField label="System prompt" rows={3} {...field("system")} />
        <TextField label="Scenario of this chat" rows={2} {...field("scenario")} />
        <TextField
          label="Messages that a prompt shows at most"
          inputMode="numeric"
          error={historyError}
          {...field("history")}
        />
        <ActionButton
          label="Store"
          variant="primary"
          may={maySave}
          busy={busy}
          hint="In force at the next turn."
          onClick={() => void save()}
        />
      </form>
      <SetupFiles chat={chat} />
      <SetupWriting key={JSON.stringify([settings.params, settings.note])} chat={chat} />
      <SetupQuickReplies chat={chat} />
      <SetupGroup chat={chat} />
      <Sessions chat={chat} />
      <Keeping chat={chat} />
      <a href={exportAddress(chat.id)} download className="text-12 text-accent underline">
        Save this chat as one file that can be verified
      </a>
      <a
        href={turnsAddress({ chat: chat.id, branch: chat.branch })}
        download
        className="text-12 text-accent underline"
      >
        Save the turns of this branch for other programs (JSONL)
      </a>
    </div>
  );
}
