import { whole } from "@/ui/amounts";
import { EmptyState } from "@/ui/EmptyState";
import { type Column, Table } from "@/ui/Table";
import { type Dealing, DEALING_KINDS, dealingsOf } from "./dealings";
import { DealingsGraph } from "./DealingsGraph";
import { Read } from "./Read";
import type { WorldPart } from "./tab";
import { EVENTS_MAX, useWorldEvents } from "./useWorldEvents";

const number = (id: "trades" | "scrip" | "messages", label: string): Column<Dealing> => ({
  id,
  label,
  cell: (one) => whole(one[id]),
  sortBy: (one) => one[id],
  align: "right",
  width: "16%",
});

const COLUMNS: readonly Column<Dealing>[] = [
  { id: "from", label: "From", cell: (one) => one.from, sortBy: (one) => one.from },
  { id: "to", label: "To", cell: (one) => one.to, sortBy: (one) => one.to },
  number("trades", "Sales"),
  number("scrip", "Scrip"),
  number("messages", "Messages"),
];

/** The graph of trades and messages: who deals with whom. */
export function DealingsTab({ world, asOf, agent, onAgent }: WorldPart) {
  const query = useWorldEvents(world.id, { kind: DEALING_KINDS });
  return (
    <Read what="trades and messages" query={query}>
      {(events) => {
        const dealings = dealingsOf(events.filter((one) => asOf === null || one.tick <= asOf));
        if (dealings.length === 0)
          return (
            <EmptyState title="Nobody has dealt with anybody yet">
              Agents sell and write to each other as ticks pass.
            </EmptyState>
          );
        return (
          <div className="@container h-full overflow-auto scroll-thin">
            <div className="grid min-h-full grid-cols-1 @min-[900px]:grid-cols-2">
              <DealingsGraph dealings={dealings} agent={agent} />
              <div className="flex min-h-60 flex-col">
                {events.length >= EVENTS_MAX && (
                  <p className="px-4 py-1.5 text-12 text-ink-2">
                    Of the newest {whole(EVENTS_MAX)} trades and messages.
                  </p>
                )}
                <Table
                  label="Who deals with whom"
                  columns={COLUMNS}
                  rows={dealings}
                  rowId={(one) => one.id}
                  selected={dealings.find((one) => one.from === agent)?.id ?? null}
                  onSelect={(one) => onAgent(one.from)}
                />
              </div>
            </div>
          </div>
        );
      }}
    </Read>
  );
}
