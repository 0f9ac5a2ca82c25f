import type { Operation } from "@/projection/turn";
import { effectWords, operationWords } from "@/projection/turnWords";
import { TONE_OF } from "@/shell/meaning";
import { Pill, Status } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { VisuallyHidden } from "@/ui/VisuallyHidden";

interface OperationRowProps {
  readonly operation: Operation;
  /** Opens what it saw; undefined for who may not, or while the turn is open. */
  readonly onLook?: (() => void) | undefined;
}

/** One operation: what it is, where it stands in words, what it changed, how long it took. */
export function OperationRow({ operation, onLook }: OperationRowProps) {
  const { word, meaning } = operationWords(operation);
  const { startedUs, endedUs, effects } = operation;
  const tookMs = startedUs === null || endedUs === null ? null : Math.round((endedUs - startedUs) / 1000);
  return (
    <li className="px-3 py-1.5 text-12">
      <div className="flex items-center gap-2">
        <span className="num min-w-0 flex-1 truncate">{operation.id}</span>
        {operation.required && <Pill tone="warn">required</Pill>}
        <Pill>{operation.kind}</Pill>
        {onLook && (
          <Button size="small" variant="quiet" onClick={onLook}>
            Look<VisuallyHidden> into {operation.id}</VisuallyHidden>
          </Button>
        )}
      </div>
      <div className="flex items-baseline justify-between gap-2">
        <Status tone={TONE_OF[meaning]}>
          <span className="break-words">{word}</span>
        </Status>
        {tookMs !== null && <span className="num shrink-0 text-11 text-ink-3">{tookMs} ms</span>}
      </div>
      {effects.length > 0 && <p className="text-11 text-ink-3">{effects.map(effectWords).join("; ")}</p>}
    </li>
  );
}
