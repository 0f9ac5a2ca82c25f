import { useAttempt } from "@/shell/useAttempt";
import { Button } from "@/ui/Button";
import { type Chat, say } from "./api";

interface QuickRepliesProps {
  readonly chat: Chat;
  readonly may: boolean;
}

/** Words of the chat's settings that are said at one press; nothing where there are none. */
export function QuickReplies({ chat, may }: QuickRepliesProps) {
  const { busy, attempt } = useAttempt();
  const kept = chat.settings.quick_replies ?? [];
  if (!may || kept.length === 0) return null;
  return (
    <div role="group" aria-label="Quick replies" className="flex flex-wrap gap-1.5">
      {kept.map(({ label, text }) => (
        <Button
          key={label}
          size="small"
          busy={busy}
          title={text.slice(0, 200)}
          onClick={() => void attempt(() => say({ chat: chat.id, branch: chat.branch }, text))}
        >
          {label}
        </Button>
      ))}
    </div>
  );
}
