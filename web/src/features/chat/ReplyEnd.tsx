import { endWords, failedOperation, turnWords } from "@/projection/turnWords";
import { Status } from "@/ui/Badge";
import type { Place, Variant } from "./api";
import { useRunTurn } from "./useRunTurn";

interface ReplyEndProps {
  readonly variant: Variant;
  readonly place: Place;
}

/** How a reply ended, where that needs a word; of one that failed the reason that its run gives. */
export function ReplyEnd({ variant, place }: ReplyEndProps) {
  const isFailed = variant.status === "failed";
  const found = useRunTurn(place, variant.run_id, isFailed);
  const ending = endWords(variant.status, variant.finish_reason);
  if (ending === "") return null;
  const run = isFailed && found.data?.status === "failed" ? found.data : null;
  const operation = run === null ? "" : failedOperation(run);
  return (
    <div className="mt-1 text-12 break-words">
      <Status tone={isFailed ? "bad" : "warn"}>{run === null ? ending : turnWords(run).word}</Status>
      {operation !== "" && <p className="text-ink-2">{operation}</p>}
    </div>
  );
}
