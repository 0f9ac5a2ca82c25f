import type { WorldEvent } from "@/client/worlds";
import { actionWords, outcomeWords } from "@/projection/worldWords";
import { EmptyState } from "@/ui/EmptyState";
import { type Column, Table } from "@/ui/Table";
import { Read } from "./Read";
import type { WorldPart } from "./tab";
import { useWorldEvents } from "./useWorldEvents";

const KINDS = ["action.rejected"];

function codeOf({ data }: WorldEvent): string {
  return typeof data["code"] === "string" ? data["code"] : "";
}

const COLUMNS: readonly Column<WorldEvent>[] = [
  {
    id: "tick",
    label: "Tick",
    cell: (one) => one.tick,
    sortBy: (one) => one.tick,
    align: "right",
    width: "9%",
  },
  { id: "actor", label: "Agent", cell: (one) => one.actor, sortBy: (one) => one.actor, width: "14%" },
  { id: "action", label: "Action", cell: actionWords, sortBy: actionWords, width: "16%" },
  { id: "code", label: "Code", cell: codeOf, sortBy: codeOf, width: "18%" },
  {
    id: "reason",
    label: "The reason that the agent reads",
    cell: (one) => <span title={outcomeWords(one)}>{outcomeWords(one)}</span>,
  },
];

/** Actions that were refused, the newest first. */
export function RefusedTab({ world, asOf, onAgent }: WorldPart) {
  const query = useWorldEvents(world.id, { kind: KINDS });
  return (
    <Read what="what was refused" query={query}>
      {(events) => (
        <Table
          label="Refused actions"
          columns={COLUMNS}
          rows={events.filter((one) => asOf === null || one.tick <= asOf)}
          rowId={(one) => String(one.seq)}
          onSelect={(one) => onAgent(one.actor)}
          empty={
            <EmptyState title="Nothing was refused">
              An action without right, money or sense would stand here with its reason.
            </EmptyState>
          }
        />
      )}
    </Read>
  );
}
