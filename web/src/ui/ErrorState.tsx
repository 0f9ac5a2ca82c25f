import { Button } from "./Button";
import { WarnIcon } from "./icons/icons";

interface ErrorStateProps {
  readonly title: string;
  /** What to do about it. */
  readonly advice?: string;
  readonly onRetry?: () => void;
}

export function ErrorState({ title, advice, onRetry }: ErrorStateProps) {
  return (
    <div role="alert" className="grid h-full place-items-center p-6">
      <div className="flex max-w-110 flex-col items-center gap-2 text-center">
        <span className="text-bad">
          <WarnIcon size={20} />
        </span>
        <p className="text-15 font-semibold break-words">{title}</p>
        {advice !== undefined && advice !== "" && <p className="break-words text-ink-2">{advice}</p>}
        {onRetry !== undefined && (
          <Button className="mt-2" onClick={onRetry}>
            Try again
          </Button>
        )}
      </div>
    </div>
  );
}
