import { useMemo, useState } from "react";
import { RUN_STATUSES, type RunStatus as Status } from "@/projection/graph";
import { shortName } from "@/projection/event";
import { runWords } from "@/projection/status";
import { type RunLine, runTree } from "@/projection/timelineRuns";
import { href, navigate } from "@/shell/route";
import { useIsUnread, useProjection } from "@/state/log";
import { dollars, whole } from "@/ui/amounts";
import { EmptyState } from "@/ui/EmptyState";
import { Select } from "@/ui/Select";
import { Skeleton } from "@/ui/Skeleton";
import { type Column, Table } from "@/ui/Table";
import { TextField } from "@/ui/TextField";
import { dayAndTime } from "@/ui/time";
import { RunStatus } from "./RunStatus";

const COLUMNS: readonly Column<RunLine>[] = [
  {
    id: "run",
    label: "Run",
    width: "30%",
    cell: ({ run, depth }) => (
      <span className="block truncate" style={{ paddingLeft: depth * 16 }} title={run.id}>
        {depth > 0 && <span className="text-ink-3">└ </span>}
        <span className="num">{depth > 0 || run.origin !== "" ? shortName(run.id) : run.id}</span>
        {run.origin !== "" && <span className="text-ink-3"> fork of {run.origin}</span>}
      </span>
    ),
    sortBy: ({ run }) => run.id,
  },
  {
    id: "status",
    label: "Status",
    width: "20%",
    cell: ({ run }) => <RunStatus run={run} />,
    sortBy: ({ run }) => runWords(run.status).word,
  },
  { id: "loop", label: "Loop", cell: ({ run }) => run.loop || "code", sortBy: ({ run }) => run.loop },
  {
    id: "agent",
    label: "Agent",
    cell: ({ run }) => <span className="text-agent">{shortName(run.agent)}</span>,
    sortBy: ({ run }) => run.agent,
  },
  { id: "model", label: "Model", cell: ({ run }) => run.model, sortBy: ({ run }) => run.model },
  {
    id: "calls",
    label: "Calls",
    align: "right",
    width: "64px",
    cell: ({ run }) => whole(run.spend.calls),
    sortBy: ({ run }) => run.spend.calls,
  },
  {
    id: "cost",
    label: "Cost, with children",
    align: "right",
    width: "136px",
    cell: ({ run, microusd }) => `${dollars(microusd)}${run.spend.unpriced > 0 ? " +?" : ""}`,
    sortBy: ({ microusd }) => microusd,
  },
  {
    id: "started",
    label: "Started",
    align: "right",
    width: "120px",
    cell: ({ run }) => dayAndTime(run.startedUs),
    sortBy: ({ run }) => run.startedUs,
  },
];

type Chosen = Status | "";

/** All runs as trees, the newest first. */
export function RunList() {
  const tree = useProjection(runTree);
  const isUnread = useIsUnread();
  const [text, setText] = useState("");
  const [status, setStatus] = useState<Chosen>("");
  const found = useMemo(() => filtered(tree, text, status), [tree, text, status]);
  if (tree.length === 0 && isUnread) return <Skeleton label="the runs" rows={8} />;
  if (tree.length === 0)
    return (
      <EmptyState title="No run was started yet">
        Write a goal into the bar at the top, or run <code className="num">artelier do &quot;…&quot;</code> in
        a terminal.
      </EmptyState>
    );
  return (
    <div className="flex h-full min-h-0 flex-col">
      <h1 className="sr-only">Runs</h1>
      <div className="flex gap-2 px-3 py-2">
        <TextField
          label="Filter runs by text"
          bare
          type="search"
          placeholder="Filter by id, goal, agent or model"
          className="flex-1"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <Select<Chosen>
          label="Status"
          bare
          value={status}
          options={[
            { value: "", label: "Every status" },
            ...RUN_STATUSES.map((one) => ({ value: one, label: runWords(one).word })),
          ]}
          onChange={setStatus}
        />
      </div>
      <Table
        label="Runs"
        className="min-h-0 flex-1 [&_table]:min-w-220"
        columns={COLUMNS}
        rows={found}
        rowId={({ run }) => run.id}
        onSelect={({ run }) => navigate(href("runs", run.id))}
        empty={
          <EmptyState title="No run is like this">
            Choose every status and empty the filter to see all {tree.length}.
          </EmptyState>
        }
      />
    </div>
  );
}

function filtered(tree: readonly RunLine[], text: string, status: Chosen): readonly RunLine[] {
  const wanted = text.trim().toLowerCase();
  return tree.filter(
    ({ run }) =>
      (status === "" || run.status === status) &&
      `${run.id} ${run.goal} ${run.agent} ${run.model}`.toLowerCase().includes(wanted),
  );
}
