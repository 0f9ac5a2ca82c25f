import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { inWords } from "@/client/http";
import type { WireEvent } from "@/projection/event";
import type { Run } from "@/projection/graph";
import { eventsOfStep, newestSeq, runSteps, type StepLine } from "@/projection/timelineSteps";
import { useIsPhone } from "@/shell/useIsPhone";
import { useRunHistory } from "@/state/runHistory";
import { useUi } from "@/state/ui";
import { dollars, whole } from "@/ui/amounts";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { Split } from "@/ui/Split";
import { type Column, Table } from "@/ui/Table";
import { costQuery, stepsQuery } from "./runQueries";
import { ForkStep } from "./ForkStep";
import { StepDetail } from "./StepDetail";
import { StepStatus } from "./StepStatus";

const COLUMNS: readonly Column<StepLine>[] = [
  {
    id: "seq",
    label: "Event",
    align: "right",
    width: "58px",
    cell: (step) => step.seq,
    sortBy: (step) => step.seq,
  },
  {
    id: "key",
    label: "Step",
    cell: (step) => (
      <span className="num" title={step.key}>
        {step.key}
      </span>
    ),
    sortBy: (step) => step.key,
  },
  { id: "kind", label: "Kind", width: "76px", cell: (step) => step.kind, sortBy: (step) => step.kind },
  {
    id: "status",
    label: "Status",
    width: "100px",
    cell: (step) => <StepStatus status={step.status} />,
    sortBy: (step) => step.status,
  },
  {
    id: "tokens",
    label: "In / out",
    align: "right",
    width: "98px",
    cell: (step) => (step.tokens === null ? "" : `${whole(step.tokens[0])} / ${whole(step.tokens[1])}`),
    sortBy: (step) => step.tokens?.[0] ?? -1,
  },
  {
    id: "cost",
    label: "Cost",
    align: "right",
    width: "68px",
    cell: (step) => (step.microusd === null ? "" : step.isPriced ? dollars(step.microusd) : "unknown"),
    sortBy: (step) => step.microusd ?? -1,
  },
];

/** The first event of a step: of a model's, that its prompt was put together. */
function firstSeq(events: readonly WireEvent[], runId: string, step: StepLine): number {
  return Math.min(step.seq, ...eventsOfStep(events, runId, step.key).map((event) => event.seq));
}

/** Every step of a run; of one that asked a model, the exact prompt. */
export function StepsTab({ run }: { readonly run: Run }) {
  const events = useRunHistory(run.id);
  const [before, setBefore] = useState<number | null>(null);
  const travel = useUi((ui) => ui.travel);
  const upto = travel === null ? null : newestSeq(events, run.id) + 1;
  const steps = useQuery(stepsQuery(run, before ?? upto));
  const costs = useQuery(costQuery(run));
  const isPhone = useIsPhone();
  const [chosen, setChosen] = useState<string | null>(null);
  const lines = useMemo(
    () => runSteps(steps.data?.items ?? [], costs.data?.steps ?? [], events, run.id),
    [steps.data, costs.data, events, run.id],
  );
  if (steps.isPending) return <Skeleton label="the steps" rows={6} />;
  if (steps.isError) return <ErrorState {...inWords(steps.error)} onRetry={() => void steps.refetch()} />;
  const { earlier } = steps.data;
  if (lines.length === 0 && earlier === null && before === null)
    return (
      <EmptyState title="No step was taken yet">
        {run.origin === ""
          ? "The first one appears as soon as a worker drives the run."
          : "This fork has taken none of its own; those that it shares are its origin's."}
      </EmptyState>
    );
  const shown =
    lines.find((line) => line.key === chosen) ?? lines.findLast((line) => line.kind === "model") ?? lines[0];
  const list = (
    <div className="flex h-full min-h-0 flex-col">
      {(earlier !== null || before !== null) && (
        <div className="flex items-center gap-2 border-b border-line px-3 py-1.5 text-ink-2">
          <span className="flex-1">{before === null ? "The newest steps" : "Earlier steps"}</span>
          {earlier !== null && <Button onClick={() => setBefore(earlier)}>Earlier</Button>}
          {before !== null && <Button onClick={() => setBefore(null)}>Newest</Button>}
        </div>
      )}
      <div className="min-h-0 flex-1">
        <Table
          label="Steps"
          className="[&_table]:min-w-130"
          columns={COLUMNS}
          rows={lines}
          rowId={(line) => line.key}
          selected={shown?.key ?? null}
          onSelect={(line) => setChosen(line.key)}
        />
      </div>
    </div>
  );
  const detail =
    shown === undefined ? null : (
      <div className="flex h-full min-h-0 flex-col">
        <ForkStep run={run} step={shown.key} seq={firstSeq(events, run.id, shown)} />
        <div className="min-h-0 flex-1">
          <StepDetail key={shown.key} run={run} step={shown} />
        </div>
      </div>
    );
  if (isPhone)
    return (
      <>
        <div className="h-60 border-b border-line">{list}</div>
        {detail}
      </>
    );
  return <Split label="Width of the steps" initial={54} first={list} second={detail} />;
}
