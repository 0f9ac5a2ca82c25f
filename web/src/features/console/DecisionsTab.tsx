import { counted } from "@/projection/counted";
import { DECISION_FIELDS, type DecisionRow, decisionRows, exportedDecision } from "@/projection/rowsDecision";
import { called } from "@/state/called";
import { csv } from "@/projection/rowsExport";
import { shortName } from "@/projection/event";
import { useProjection } from "@/state/log";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { Split } from "@/ui/Split";
import { type Column, Table } from "@/ui/Table";
import { clock } from "@/ui/time";
import { setConsole, useConsole } from "./consoleStore";
import { download } from "./download";
import { LookedContext } from "./LookedContext";
import { Verdict } from "./Verdict";

const COLUMNS: readonly Column<DecisionRow>[] = [
  { id: "time", label: "Time", width: "72px", cell: (row) => clock(row.atUs), sortBy: (row) => row.position },
  {
    id: "n",
    label: "Iteration",
    width: "72px",
    align: "right",
    cell: (row) => row.n,
    sortBy: (row) => row.n,
  },
  {
    id: "agent",
    label: "Agent",
    width: "76px",
    cell: (row) => <span className="text-agent">{called(row.agent)}</span>,
    sortBy: (row) => called(row.agent),
  },
  {
    id: "action",
    label: "Action",
    width: "118px",
    cell: (row) => <span className="num">{row.action || row.code}</span>,
    sortBy: (row) => row.action,
  },
  {
    id: "reason",
    label: "Reason",
    cell: (row) => <span title={row.reason}>{row.reason}</span>,
    sortBy: (row) => row.reason,
  },
  {
    id: "verdict",
    label: "Verdict",
    width: "96px",
    cell: (row) => <Verdict row={row} />,
    sortBy: (row) => row.verdict,
  },
  {
    id: "tool",
    label: "Tool",
    width: "104px",
    cell: (row) => (
      <span className="num" title={row.tool}>
        {row.tool}
      </span>
    ),
    sortBy: (row) => row.tool,
  },
  {
    id: "repeats",
    label: "Repeats",
    width: "76px",
    align: "right",
    cell: (row) => row.repeats,
    sortBy: (row) => row.repeats,
  },
  {
    id: "task",
    label: "Task",
    width: "84px",
    cell: (row) => shortName(row.task),
    sortBy: (row) => row.task,
  },
];

/** Each decision with its reason and what became of it; beside it what the agent saw when it decided. */
export function DecisionsTab() {
  const rows = useProjection(decisionRows);
  const looked = useConsole((state) => state.looked);
  if (rows.length === 0)
    return (
      <EmptyState title="Nothing was decided yet">
        Launch a goal: what its agents choose in each iteration, and why, stands here.
      </EmptyState>
    );
  const exported = rows.map(exportedDecision);
  return (
    <Split
      label="Width of the decision log"
      initial={62}
      first={
        <div className="flex h-full min-h-0 flex-col">
          <div className="flex items-center gap-2 px-3 py-1.5 text-12 text-ink-2">
            <p className="flex-1">{counted(rows.length, "decision")}</p>
            <Button
              size="small"
              onClick={() => download("decisions.csv", csv(DECISION_FIELDS, exported), "text/csv")}
            >
              Export CSV
            </Button>
            <Button
              size="small"
              onClick={() =>
                download("decisions.json", JSON.stringify(exported, null, 2), "application/json")
              }
            >
              Export JSON
            </Button>
          </div>
          <Table
            label="Decisions"
            className="min-h-0 flex-1 [&_table]:min-w-235"
            columns={COLUMNS}
            rows={rows}
            rowId={(row) => row.id}
            selected={rows.find((row) => row.position === looked?.position)?.id ?? null}
            onSelect={(row) =>
              setConsole({ looked: { runId: row.task, step: `c${row.n}/decision`, position: row.position } })
            }
          />
        </div>
      }
      second={<LookedContext />}
    />
  );
}
