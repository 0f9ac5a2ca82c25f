import { useMemo, useState } from "react";
import { counted } from "@/projection/counted";
import type { Graph, Run } from "@/projection/graph";
import { compareRuns, type DiffLine, type HistoryEvent, historyOf } from "@/projection/timelineRuns";
import { rowFor } from "@/shell/eventRow";
import { Link } from "@/shell/Link";
import { href } from "@/shell/route";
import { useGraph } from "@/state/log";
import { useRunHistory } from "@/state/runHistory";
import { dollars, whole } from "@/ui/amounts";
import { Pill } from "@/ui/Badge";
import { EmptyState } from "@/ui/EmptyState";
import { Select } from "@/ui/Select";
import { type Column, Table } from "@/ui/Table";
import type { Tone } from "@/ui/tone";
import { KernelDiff } from "./KernelDiff";

const TONES: Readonly<Record<DiffLine["how"], Tone>> = {
  shared: "neutral",
  equal: "money",
  different: "warn",
};
/** Events that are shown before the place where two runs part. */
const LEAD = 3;

function told(one: HistoryEvent | null): string {
  if (one === null) return "–";
  const row = rowFor(one.event);
  return `${row.step === "" ? row.kind : row.step} · ${row.text}`;
}

const COLUMNS: readonly Column<DiffLine>[] = [
  { id: "place", label: "Place", align: "right", width: "64px", cell: (line) => line.place + 1 },
  {
    id: "how",
    label: "How",
    width: "104px",
    cell: (line) => <Pill tone={TONES[line.how]}>{line.how}</Pill>,
  },
  { id: "a", label: "This run", cell: (line) => <span title={told(line.a)}>{told(line.a)}</span> },
  { id: "b", label: "The other run", cell: (line) => <span title={told(line.b)}>{told(line.b)}</span> },
];

/** Those that one most likely compares with come first: the origin, forks, siblings, runs of the same loop. */
function candidates(graph: Graph, run: Run): readonly Run[] {
  const nearness = (one: Run): number => {
    if (one.id === run.origin || one.origin === run.id) return 0;
    if (one.origin !== "" && one.origin === run.origin) return 1;
    return one.loop === run.loop ? 2 : 3;
  };
  return [...graph.runs.values()]
    .filter((one) => one.id !== run.id)
    .sort((a, b) => nearness(a) - nearness(b) || b.startedUs - a.startedUs);
}

/** Two runs side by side, from where they part. */
export function CompareTab({ run }: { readonly run: Run }) {
  const graph = useGraph();
  const others = useMemo(() => candidates(graph, run), [graph, run]);
  const [chosen, setChosen] = useState("");
  const other = others.find((one) => one.id === chosen) ?? others[0];
  const otherId = other?.id ?? "";
  const events = useRunHistory(run.id, otherId);
  const { lines, partAt } = useMemo(
    () => compareRuns(historyOf(events, run.id), historyOf(events, otherId)),
    [events, run.id, otherId],
  );
  if (other === undefined)
    return (
      <EmptyState title="There is nothing to compare with">
        Fork this run, with another model perhaps, and see here where the two part.
      </EmptyState>
    );
  const shared = lines.filter((line) => line.how === "shared").length;
  const shown = partAt === null ? lines : lines.slice(Math.max(0, partAt - LEAD));
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex flex-wrap items-center gap-3 px-3 py-1.5 text-12">
        <Select
          label="Compare with"
          bare
          className="max-w-90 min-w-0"
          value={other.id}
          options={others.slice(0, 300).map((one) => ({ value: one.id, label: one.id }))}
          onChange={setChosen}
        />
        <p className="text-ink-2">
          {partAt === null
            ? `No difference in ${counted(lines.length, "event")}.`
            : `They share ${counted(shared, "event")} and part at place ${whole(partAt + 1)}.`}{" "}
          {totals(run)} here, {totals(other)} there.
        </p>
        <Link to={href("runs", run.id, { with: other.id })} className="text-accent underline">
          Both futures on one page
        </Link>
      </div>
      <KernelDiff run={run} other={other} />
      <Table
        label="Two runs side by side"
        className="min-h-0 flex-1"
        columns={COLUMNS}
        rows={shown}
        rowId={(line) => String(line.place)}
      />
    </div>
  );
}

function totals({ spend }: Run): string {
  return `${counted(spend.calls, "call")} for ${dollars(spend.microusd)}`;
}
