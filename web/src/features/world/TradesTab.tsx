import { type Trade, tradeOf } from "@/projection/worldWords";
import { Link } from "@/shell/Link";
import { href } from "@/shell/route";
import { whole } from "@/ui/amounts";
import { EmptyState } from "@/ui/EmptyState";
import { type Column, Table } from "@/ui/Table";
import { Read } from "./Read";
import type { WorldPart } from "./tab";
import { useWorldEvents } from "./useWorldEvents";

const KINDS = ["offer.accepted"];

const COLUMNS: readonly Column<Trade>[] = [
  {
    id: "tick",
    label: "Tick",
    cell: (one) => one.tick,
    sortBy: (one) => one.tick,
    align: "right",
    width: "10%",
  },
  {
    id: "artifact",
    label: "Artifact",
    cell: (one) => one.artifact,
    sortBy: (one) => one.artifact,
    width: "28%",
  },
  { id: "sells", label: "Sold", cell: (one) => one.sells, sortBy: (one) => one.sells, width: "16%" },
  { id: "seller", label: "Seller", cell: (one) => one.seller, sortBy: (one) => one.seller },
  { id: "buyer", label: "Buyer", cell: (one) => one.buyer, sortBy: (one) => one.buyer },
  {
    id: "price",
    label: "Scrip",
    cell: (one) => whole(one.price),
    sortBy: (one) => one.price,
    align: "right",
    width: "12%",
  },
];

/** What was sold, the newest first. */
export function TradesTab({ world, asOf, agent, onAgent }: WorldPart) {
  const query = useWorldEvents(world.id, { kind: KINDS });
  return (
    <Read what="the trades" query={query}>
      {(events) => {
        const trades = events.filter((one) => asOf === null || one.tick <= asOf).map(tradeOf);
        return (
          <div className="flex h-full flex-col">
            <div className="min-h-0 flex-1">
              <Table
                label="Trades"
                columns={COLUMNS}
                rows={trades}
                rowId={(one) => String(one.seq)}
                selected={trades.find((one) => one.buyer === agent)?.seq.toString() ?? null}
                onSelect={(one) => onAgent(one.buyer)}
                empty={
                  <EmptyState title="Nothing was sold yet">
                    Agents offer and buy as ticks pass; a row opens the buyer.
                  </EmptyState>
                }
              />
            </div>
            <p className="border-t border-line px-4 py-1.5 text-12">
              <Link to={href("market", null, { world: world.id })} className="text-accent underline">
                Offers and prices of this world
              </Link>
            </p>
          </div>
        );
      }}
    </Read>
  );
}
