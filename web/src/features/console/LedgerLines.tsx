import { useMemo, useState } from "react";
import { timeOf } from "@/shell/eventRow";
import { called } from "@/state/called";
import type { LedgerLine, LedgerSort } from "@/projection/rowsLedger";
import { shortName } from "@/projection/event";
import { Pill } from "@/ui/Badge";
import { EmptyState } from "@/ui/EmptyState";
import { Select } from "@/ui/Select";
import { type Column, Table } from "@/ui/Table";
import type { Tone } from "@/ui/tone";
import { amountIn } from "./amountIn";

const TONES: Readonly<Record<LedgerSort, Tone>> = {
  posting: "money",
  hold: "warn",
  settle: "agent",
  release: "neutral",
};

function held(line: LedgerLine): string {
  if (line.sort !== "settle" || line.held === 0) return "";
  return `of ${amountIn(line.unit, line.held)} held`;
}

const COLUMNS: readonly Column<LedgerLine>[] = [
  {
    id: "time",
    label: "Time",
    width: "76px",
    cell: (line) => timeOf(line),
    sortBy: (line) => line.position,
  },
  {
    id: "sort",
    label: "Entry",
    width: "84px",
    cell: (line) => <Pill tone={TONES[line.sort]}>{line.sort}</Pill>,
    sortBy: (line) => line.sort,
  },
  {
    id: "amount",
    label: "Amount",
    width: "212px",
    align: "right",
    cell: (line) => `${amountIn(line.unit, line.amount)} ${held(line)}`,
    sortBy: (line) => line.amount,
  },
  {
    id: "source",
    label: "From or scope",
    cell: (line) => <span title={line.source}>{labelOf(line.source)}</span>,
    sortBy: (line) => line.source,
  },
  {
    id: "target",
    label: "To",
    width: "17%",
    cell: (line) => <span title={line.target}>{line.target === "" ? "–" : labelOf(line.target)}</span>,
    sortBy: (line) => line.target,
  },
  {
    id: "step",
    label: "Step",
    width: "24%",
    cell: (line) => (
      <span className="num" title={`${line.runId} ${line.step}`}>
        {[shortName(line.runId), line.step || line.kind].filter(Boolean).join(" ")}
      </span>
    ),
    sortBy: (line) => `${line.runId} ${line.step}`,
  },
];

const SHOWN = [
  { value: "all", label: "Every entry" },
  { value: "money", label: "Dollars and scrip" },
  { value: "posting", label: "Postings" },
  { value: "counters", label: "Holds and settlements" },
] as const;
type Shown = (typeof SHOWN)[number]["value"];

function passes(line: LedgerLine, shown: Shown): boolean {
  if (shown === "money") return line.sort === "posting" || line.unit === "usd";
  if (shown === "posting") return line.sort === "posting";
  return shown === "all" || line.sort !== "posting";
}

function ownersOf(lines: readonly LedgerLine[]): readonly string[] {
  const found = new Set(lines.flatMap((line) => [line.source, line.target]));
  found.delete("");
  return [...found].sort((a, b) => a.localeCompare(b));
}

/** What was moved, held and settled, the newest first. */
export function LedgerLines({ lines }: { readonly lines: readonly LedgerLine[] }) {
  const [shown, setShown] = useState<Shown>("all");
  const [owner, setOwner] = useState("");
  const owners = useMemo(() => ownersOf(lines), [lines]);
  const found = useMemo(
    () =>
      lines.filter(
        (line) => passes(line, shown) && (owner === "" || line.source === owner || line.target === owner),
      ),
    [lines, shown, owner],
  );
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex gap-2 px-3 py-1.5">
        <Select label="Entries" bare value={shown} options={SHOWN} onChange={setShown} />
        <Select
          label="Account or scope"
          bare
          className="min-w-0 flex-1"
          value={owner}
          options={[
            { value: "", label: "Every account and scope" },
            ...owners.map((one) => ({ value: one, label: labelOf(one) })),
          ]}
          onChange={setOwner}
        />
      </div>
      <Table
        label="Ledger entries"
        className="min-h-0 flex-1 [&_table]:min-w-200"
        columns={COLUMNS}
        rows={found}
        rowId={(line) => line.id}
        empty={
          <EmptyState title="Nothing of this kind was moved">
            Choose every entry, or let an agent work: each call holds its upper bound first.
          </EmptyState>
        }
      />
    </div>
  );
}

function labelOf(account: string): string {
  const [type, ...rest] = account.split(":");
  return rest.length === 0 ? account : `${type}: ${called(rest.join(":"))}`;
}
