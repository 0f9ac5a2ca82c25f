import type { Enabled } from "@/commands/command";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { Menu } from "@/ui/Menu";
import { type Chat, speak } from "./api";
import { nameOf } from "./names";

interface NextSpeakerProps {
  readonly chat: Chat;
  readonly may: Enabled;
}

/** Has a character go on without words of the person: the next of a group, or one that is chosen. */
export function NextSpeaker({ chat, may }: NextSpeakerProps) {
  const place = { chat: chat.id, branch: chat.branch };
  const { busy, attempt } = useAttempt();
  const names = chat.settings.group.map((one) => nameOf(one, "")).filter((name) => name !== "");
  if (names.length === 0) return null;
  return (
    <>
      <ActionButton
        label="Next speaker"
        size="small"
        variant="quiet"
        hint={`Chosen by: ${chat.settings.speaks}.`}
        may={may}
        busy={busy}
        onClick={() => void attempt(() => speak(place))}
      />
      <Menu
        label="Choose who speaks"
        text="Who …"
        items={names.map((name) => ({
          id: name,
          label: name,
          run: () => void attempt(() => speak(place, name)),
          ...(may.ok ? {} : { disabled: true, why: may.why }),
        }))}
      />
    </>
  );
}
