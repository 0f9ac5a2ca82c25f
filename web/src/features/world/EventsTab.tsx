import type { WorldEvent } from "@/client/worlds";
import { actionWords, outcomeWords, sourceWords } from "@/projection/worldWords";
import { whole } from "@/ui/amounts";
import { EmptyState } from "@/ui/EmptyState";
import { type Column, Table } from "@/ui/Table";
import { Read } from "./Read";
import type { WorldPart } from "./tab";
import { EVENTS_MAX, useWorldEvents } from "./useWorldEvents";

const COLUMNS: readonly Column<WorldEvent>[] = [
  { id: "tick", label: "Tick", cell: (one) => one.tick, align: "right", width: "9%" },
  { id: "actor", label: "Who", cell: (one) => one.actor, sortBy: (one) => one.actor, width: "15%" },
  { id: "action", label: "What", cell: actionWords, sortBy: actionWords, width: "28%" },
  { id: "source", label: "Decided by", cell: sourceWords, sortBy: sourceWords, width: "14%" },
  {
    id: "outcome",
    label: "What came of it",
    cell: (one) => <span title={outcomeWords(one)}>{outcomeWords(one)}</span>,
  },
];

/** The newest events of the world, whatever they are. */
export function EventsTab({ world, asOf, onAgent }: WorldPart) {
  const query = useWorldEvents(world.id, {});
  return (
    <Read what="the events" query={query}>
      {(events) => {
        const rows = events.filter((one) => asOf === null || one.tick <= asOf);
        return (
          <div className="flex h-full flex-col">
            <div className="min-h-0 flex-1">
              <Table
                label="Events"
                columns={COLUMNS}
                rows={rows}
                rowId={(one) => String(one.seq)}
                onSelect={(one) => onAgent(one.actor)}
                empty={
                  <EmptyState title="No event is at hand">
                    Pass a tick: what agents do is listed here.
                  </EmptyState>
                }
              />
            </div>
            {events.length === EVENTS_MAX && (
              <p className="border-t border-line px-4 py-1.5 text-12 text-ink-2">
                The newest {whole(EVENTS_MAX)} events. Choose an agent for what it did before.
              </p>
            )}
          </div>
        );
      }}
    </Read>
  );
}
