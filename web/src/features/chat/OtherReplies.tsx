import { href, navigate } from "@/shell/route";
import { useAttempt } from "@/shell/useAttempt";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { branchOff, type ChatTurn, type Place, selectVariant } from "./api";

interface OtherRepliesProps {
  readonly place: Place;
  readonly turn: ChatTurn;
  readonly onClose: () => void;
}

/** The replies that the branch does not go on from, and the way to what was said after each. */
export function OtherReplies({ place, turn, onClose }: OtherRepliesProps) {
  const { busy, attempt } = useAttempt();
  const others = turn.variants.filter((one) => one.number !== turn.selected);
  const open = async (variant: number) => {
    const ok = await attempt(async () => {
      const branch = await branchOff(place, { turn: turn.number });
      await selectVariant({ ...place, branch }, turn.number, variant);
      navigate(href("chat", place.chat, { branch }));
    }, "You are on a new branch; the other one stays as it is.");
    if (ok) onClose();
  };
  return (
    <Dialog title={`Other replies of turn ${turn.number}`} onClose={onClose}>
      <p className="mb-3 text-ink-2">
        Each opens on a new branch, with all that was said after it and the state that it left.
      </p>
      <ul className="divide-y divide-line rounded-card border border-line">
        {others.map((one, index) => (
          <li key={one.number} className="flex items-center gap-3 px-3 py-2">
            <span className="min-w-0 flex-1">
              <span className="num block text-11 text-ink-3">reply {one.number}</span>
              <span className="line-clamp-2 break-words">{one.text === "" ? "no words" : one.text}</span>
            </span>
            <Button
              size="small"
              aria-label={`Open reply ${one.number}`}
              data-autofocus={index === 0 || undefined}
              busy={busy}
              onClick={() => void open(one.number)}
            >
              Open it
            </Button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
