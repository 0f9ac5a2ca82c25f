import { api, path } from "@/client/http";
import { useAttempt } from "@/shell/useAttempt";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { readAgain, type Entry } from "./useMemory";

interface ForgetDialogProps {
  readonly agent: string;
  readonly entry: Entry;
  readonly onClose: () => void;
}

/** Asks before an entry is taken out. */
export function ForgetDialog({ agent, entry, onClose }: ForgetDialogProps) {
  const { busy, attempt } = useAttempt();
  const forget = async () => {
    await attempt(
      () => api.del(path("memory", agent, "entries", entry.id)),
      () => ({ title: "It is forgotten.", advice: "Changes › Undo brings it back." }),
    );
    readAgain();
    onClose();
  };
  return (
    <ConfirmDialog
      title="Forget this entry?"
      label="Forget it"
      busy={busy}
      onConfirm={() => void forget()}
      onClose={onClose}
    >
      <blockquote className="max-h-40 overflow-auto border-l-2 border-line pl-3 break-words whitespace-pre-wrap">
        {entry.text}
      </blockquote>
      <p className="text-ink-2">
        {agent} no longer finds it from its next step on. What was said in prompts so far stays in the log,
        and “Changes” can bring the entry back.
      </p>
    </ConfirmDialog>
  );
}
