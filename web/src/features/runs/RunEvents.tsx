import { useMemo } from "react";
import type { Run } from "@/projection/graph";
import type { ConsoleRow } from "@/projection/rows";
import { rowFor, rowTone, timeOf } from "@/shell/eventRow";
import { useRunHistory } from "@/state/runHistory";
import { Pill } from "@/ui/Badge";
import { type Column, Table } from "@/ui/Table";

const COLUMNS: readonly Column<ConsoleRow>[] = [
  {
    id: "seq",
    label: "Event",
    align: "right",
    width: "64px",
    cell: (row) => row.seq,
    sortBy: (row) => row.seq,
  },
  { id: "time", label: "Time", width: "84px", cell: (row) => timeOf(row), sortBy: (row) => row.position },
  {
    id: "kind",
    label: "Kind",
    width: "168px",
    cell: (row) => <span className="num">{row.kind}</span>,
    sortBy: (row) => row.kind,
  },
  {
    id: "what",
    label: "What",
    width: "128px",
    cell: (row) => <Pill tone={rowTone(row)}>{row.word}</Pill>,
    sortBy: (row) => row.word,
  },
  { id: "text", label: "In words", cell: (row) => <span title={row.text}>{row.text}</span> },
];

/** Every event of a run's own stream. */
export function RunEvents({ run }: { readonly run: Run }) {
  const events = useRunHistory(run.id);
  const rows = useMemo(
    () => events.filter((event) => event.stream === `run:${run.id}`).map(rowFor),
    [events, run.id],
  );
  return (
    <Table
      label="Events of the run"
      className="[&_table]:min-w-180"
      columns={COLUMNS}
      rows={rows}
      rowId={(row) => String(row.position)}
    />
  );
}
