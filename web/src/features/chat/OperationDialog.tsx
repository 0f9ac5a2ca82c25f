import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { inWords } from "@/client/http";
import { useAttempt } from "@/shell/useAttempt";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { dollars } from "@/ui/amounts";
import { type OperationTrial, debugOperation, runOperationAgain } from "./api";
import { ValueView } from "./ValueView";

interface OperationDialogProps {
  readonly chat: string;
  readonly run: string;
  readonly operation: string;
  readonly hook: "before_main_llm" | "after_main_llm";
  readonly onClose: () => void;
}

/** One operation for its author: the error in full, what it saw, what it found; and the same once more. */
export function OperationDialog({ chat, run, operation, hook, onClose }: OperationDialogProps) {
  const [trial, setTrial] = useState<OperationTrial | null>(null);
  const { busy, attempt } = useAttempt();
  const seen = useQuery({
    queryKey: ["chat-debug", chat, run, operation, hook],
    queryFn: ({ signal }) => debugOperation(chat, run, operation, hook, signal),
  });
  const again = (current: boolean) =>
    void attempt(async () => {
      setTrial(await runOperationAgain(chat, { run_id: run, operation_id: operation, hook, current }));
    });
  return (
    <Dialog
      title={`Operation ${operation}`}
      width="wide"
      onClose={onClose}
      footer={
        <>
          <Button busy={busy} onClick={() => again(false)}>
            Run again as it was
          </Button>
          <Button variant="primary" busy={busy} onClick={() => again(true)}>
            Run again as it is now
          </Button>
        </>
      }
    >
      <p className="mb-3 text-12 text-ink-2">
        It runs over what it saw in this turn, in a run of its own. Nothing of the chat changes.
      </p>
      {trial !== null && <TrialView trial={trial} />}
      {seen.isPending && <Skeleton label="what it saw" />}
      {seen.isError && <ErrorState {...inWords(seen.error)} onRetry={() => void seen.refetch()} />}
      {seen.data && (
        <>
          {seen.data.message !== "" && <Part title="Error" value={seen.data.message} />}
          {seen.data.found !== undefined && <Part title="Found" value={seen.data.found} />}
          <Part title="Saw" value={seen.data.scope} />
        </>
      )}
    </Dialog>
  );
}

function TrialView({ trial }: { readonly trial: OperationTrial }) {
  const why = [trial.reason, trial.code, trial.message].filter((word) => word !== "").join(": ");
  return (
    <section aria-label="Run again" className="mb-4 rounded-card border border-line p-3">
      <h3 className="mb-1 text-12 text-ink-2">
        {trial.is_current ? "Run again, as it is now" : "Run again, as it was"}: {trial.status}
        {why !== "" && ` · ${why}`} · {dollars(trial.cost_microusd)}
      </h3>
      {trial.status === "done" && <Part title="Found" value={trial.value} />}
      {trial.effects.length > 0 && <Part title="Would change" value={trial.effects} />}
      <p className="num text-11 text-ink-3">{trial.run_id}</p>
    </section>
  );
}

function Part({ title, value }: { readonly title: string; readonly value: unknown }) {
  return (
    <section aria-label={title} className="mb-3">
      <h3 className="mb-1 text-12 text-ink-2">{title}</h3>
      <div className="text-12">
        <ValueView value={value} />
      </div>
    </section>
  );
}
