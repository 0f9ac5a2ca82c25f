import { useAttempt } from "@/shell/useAttempt";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { branchOff, type Chat, rewind } from "./api";

interface RewindDialogProps {
  readonly chat: Chat;
  readonly turn: number;
  readonly onClose: () => void;
}

/** Going on from an earlier turn: what leaves the branch, and the way to keep it. */
export function RewindDialog({ chat, turn, onClose }: RewindDialogProps) {
  const place = { chat: chat.id, branch: chat.branch };
  const { busy, attempt } = useAttempt();
  const last = chat.turns.at(-1)?.number ?? turn;
  const leaving = last === turn + 1 ? `Turn ${last} leaves` : `Turns ${turn + 1} to ${last} leave`;
  const go = async (keeps: boolean) => {
    const ok = await attempt(async () => {
      if (keeps) await branchOff(place);
      await rewind(place, turn);
    });
    if (ok) onClose();
  };
  return (
    <Dialog
      title={turn === 0 ? "Rewind to the beginning" : `Rewind to turn ${turn}`}
      width="narrow"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button busy={busy} onClick={() => void go(false)}>
            Rewind
          </Button>
          <Button variant="primary" busy={busy} data-autofocus onClick={() => void go(true)}>
            Keep the rest on a branch
          </Button>
        </>
      }
    >
      <p>
        {leaving} the branch {chat.branch}, and its state goes back to what it was. Nothing is deleted: a
        branch made first keeps what leaves within reach.
      </p>
    </Dialog>
  );
}
