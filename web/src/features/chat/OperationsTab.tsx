import { inWords } from "@/client/http";
import { useState } from "react";
import type { Operation, Turn } from "@/projection/turn";
import { turnWords } from "@/projection/turnWords";
import { TONE_OF } from "@/shell/meaning";
import { useGraph } from "@/state/log";
import { select, useUi } from "@/state/ui";
import { Status } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import type { Chat } from "./api";
import { OperationDialog } from "./OperationDialog";
import { PromptTokens } from "./PromptTokens";
import { OperationRow } from "./OperationRow";
import { spendWords } from "./spendWords";
import { useRunTurn } from "./useRunTurn";

interface OperationsTabProps {
  readonly chat: Chat;
  readonly run: string;
  readonly live: Turn | null;
  readonly isOpen: boolean;
  readonly isChosen: boolean;
  readonly onNewest: () => void;
}

const HOOKS = [
  { hook: "before_main_llm", title: "Before the reply" },
  { hook: "after_main_llm", title: "After the reply" },
] as const;

/** What the operations of one turn do or did: as it happens of the newest, from the log of any other. */
export function OperationsTab({ chat, run, live, isOpen, isChosen, onNewest }: OperationsTabProps) {
  const graph = useGraph();
  const mayLook = useUi((state) => state.me?.role === "operator" || state.me?.role === "admin");
  const [looked, setLooked] = useState<Operation | null>(null);
  const stored = useRunTurn({ chat: chat.id, branch: chat.branch }, run, !isOpen);
  const turn = isOpen ? live : (stored.data ?? live);
  if (run === "") {
    return (
      <EmptyState title="No turn yet">
        Say something: each operation of the turn is shown here while it works.
      </EmptyState>
    );
  }
  if (turn === null) {
    if (isOpen || stored.isPending) return <Skeleton label="the operations" />;
    const { title, advice } = inWords(stored.error);
    return <ErrorState title={title} advice={advice} onRetry={() => void stored.refetch()} />;
  }
  const words = turnWords(turn);
  const cost = spendWords(graph.runs.get(run)?.spend);
  return (
    <div className="flex flex-col gap-3 p-3">
      <div className="flex flex-wrap items-center gap-2 text-12">
        <Button size="small" variant="quiet" onClick={() => select("run", run)}>
          <span className="num">{run}</span>
        </Button>
        {isChosen && (
          <Button size="small" onClick={onNewest}>
            Show the newest
          </Button>
        )}
        <span className="basis-full">
          <Status tone={TONE_OF[words.meaning]}>{words.word}</Status>
        </span>
        <span className="num text-11 text-ink-3">
          {turn.calls} model {turn.calls === 1 ? "call" : "calls"}
          {cost !== "" && ` · ${cost}`}
        </span>
      </div>
      {!isOpen && <PromptTokens run={run} />}
      {turn.operations.length === 0 && (
        <p className="text-12 text-ink-2">
          {turn.phase === "" || turn.phase === "planning"
            ? "The operations are being planned."
            : "This turn was a plain model call, without operations."}
        </p>
      )}
      {HOOKS.map(({ hook, title }) => {
        const operations = turn.operations.filter((one) => one.hook === hook);
        if (operations.length === 0) return null;
        return (
          <section key={hook} aria-label={title}>
            <h3 className="mb-1 text-12 text-ink-2">{title}</h3>
            <ol className="divide-y divide-line rounded-card border border-line">
              {operations.map((one) => (
                <OperationRow
                  key={one.id}
                  operation={one}
                  onLook={mayLook && !isOpen ? () => setLooked(one) : undefined}
                />
              ))}
            </ol>
          </section>
        );
      })}
      {looked !== null && (
        <OperationDialog
          chat={chat.id}
          run={run}
          operation={looked.id}
          hook={looked.hook === "before_main_llm" ? "before_main_llm" : "after_main_llm"}
          onClose={() => setLooked(null)}
        />
      )}
    </div>
  );
}
