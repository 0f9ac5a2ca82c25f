import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { WarnIcon } from "@/ui/icons/icons";
import { failedOperation, turnWords } from "@/projection/turnWords";
import { type Chat, type ChatTurn, currentBranch, goOn, regenerate } from "./api";
import { useAsked } from "./useAsked";
import { useRunTurn } from "./useRunTurn";

interface UnansweredProps {
  readonly chat: Chat;
  readonly last: ChatTurn | undefined;
}

/** The newest run ended without a reply: why, and how to try again. */
export function Unanswered({ chat, last }: UnansweredProps) {
  const branch = currentBranch(chat);
  const place = { chat: chat.id, branch: chat.branch };
  const run = branch?.run_id ?? "";
  const isFailed = branch?.status === "failed" || branch?.status === "cancelled";
  const trigger = useAsked(place, run);
  const found = useRunTurn(place, run, isFailed);
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const hasReply = last?.variants.some((one) => one.run_id === run) ?? false;
  if (!isFailed || hasReply || (branch.status === "cancelled" && last?.selected !== 0)) return null;
  const why = found.data === undefined ? branch.status : turnWords(found.data).word;
  const operation = found.data === undefined ? "" : failedOperation(found.data);
  const again = () => (trigger === "continue" ? goOn(place) : regenerate(place));
  return (
    <div
      role="alert"
      className="mx-auto flex w-full max-w-190 items-start gap-2 rounded-card border border-bad p-3"
    >
      <span className="mt-0.5 text-bad">
        <WarnIcon />
      </span>
      <div className="min-w-0 flex-1">
        <p className="break-words">
          {trigger === "continue" ? "The reply was not continued" : "There is no reply"}: {why}
        </p>
        {operation !== "" && <p className="text-12 break-words text-ink-2">{operation}</p>}
      </div>
      <ActionButton
        label="Try again"
        size="small"
        may={may}
        busy={busy}
        onClick={() => void attempt(again)}
      />
    </div>
  );
}
