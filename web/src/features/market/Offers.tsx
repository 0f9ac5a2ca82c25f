import { useMemo } from "react";
import { counted } from "@/projection/counted";
import type { Offer } from "@/client/worlds";
import { href, navigate } from "@/shell/route";
import { whole } from "@/ui/amounts";
import { EmptyState } from "@/ui/EmptyState";
import { Select } from "@/ui/Select";
import { type Column, Table } from "@/ui/Table";

const COMMON: readonly Column<Offer>[] = [
  {
    id: "artifact",
    label: "Artifact",
    cell: (one) => `${one.artifact}@${one.version}`,
    sortBy: (one) => one.artifact,
    width: "24%",
  },
  { id: "kind", label: "Kind", cell: (one) => one.kind, sortBy: (one) => one.kind },
  { id: "sells", label: "Sells", cell: termsOf, sortBy: (one) => one.sells, width: "20%" },
  {
    id: "price",
    label: "Scrip",
    cell: (one) => whole(one.price),
    sortBy: (one) => one.price,
    align: "right",
    width: "9%",
  },
  { id: "seller", label: "Seller", cell: (one) => one.seller, sortBy: (one) => one.seller },
];

const OPEN: readonly Column<Offer>[] = [
  ...COMMON,
  { id: "to", label: "For", cell: (one) => one.to || "anyone", sortBy: (one) => one.to },
  {
    id: "sold",
    label: "Sold",
    cell: (one) => whole(one.sold),
    sortBy: (one) => one.sold,
    align: "right",
    width: "8%",
  },
  {
    id: "made",
    label: "Tick",
    cell: (one) => one.made,
    sortBy: (one) => one.made,
    align: "right",
    width: "8%",
  },
];

const CLOSED: readonly Column<Offer>[] = [
  ...COMMON,
  {
    id: "end",
    label: "What became of it",
    cell: (one) => (one.buyer === null ? one.status : `${one.status}, ${one.buyer}`),
    sortBy: (one) => one.status,
    width: "17%",
  },
  {
    id: "sold",
    label: "Sold",
    cell: (one) => whole(one.sold),
    sortBy: (one) => one.sold,
    align: "right",
    width: "8%",
  },
  {
    id: "closed",
    label: "Tick",
    cell: (one) => one.closed ?? one.made,
    sortBy: (one) => one.closed ?? one.made,
    align: "right",
    width: "8%",
  },
];

/** What the buyer gets: ownership, a copy with its royalty, a licence with its bounds. */
function termsOf({ sells, uses, ticks, royalty_percent }: Offer): string {
  const bounds = [
    uses !== null && `${uses} uses`,
    ticks !== null && counted(ticks, "tick"),
    royalty_percent > 0 && `royalty ${royalty_percent}%`,
  ].filter(Boolean);
  return bounds.length === 0 ? sells : `${sells}, ${bounds.join(", ")}`;
}

interface OffersProps {
  readonly label: string;
  readonly world: string;
  readonly offers: readonly Offer[];
  readonly kind: string;
  readonly onKind: (kind: string) => void;
  readonly isOpen: boolean;
}

/** Offers by kind, the newest first; a row opens the seller. */
export function Offers({ label, world, offers, kind, onKind, isOpen }: OffersProps) {
  const kinds = useMemo(() => [...new Set(offers.map((one) => one.kind))].sort(), [offers]);
  const chosen = kinds.includes(kind) ? kind : "";
  const rows = chosen === "" ? offers : offers.filter((one) => one.kind === chosen);
  if (offers.length === 0) {
    return (
      <EmptyState title={isOpen ? "Nothing is for sale" : "Nothing was sold or withdrawn"}>
        Run some ticks: agents decide by themselves what they offer and buy.
      </EmptyState>
    );
  }
  return (
    <div className="flex h-full flex-col">
      <div className="px-4 py-2">
        <Select
          bare
          label="Kind of artifact"
          value={chosen}
          options={[{ value: "", label: "all kinds" }, ...kinds.map((one) => ({ value: one, label: one }))]}
          onChange={onKind}
          className="w-40"
        />
      </div>
      <div className="min-h-0 flex-1">
        <Table
          label={label}
          className="[&_table]:min-w-180"
          columns={isOpen ? OPEN : CLOSED}
          rows={rows}
          rowId={(one) => one.offer}
          onSelect={(one) => navigate(href("world", world, { agent: one.seller }))}
        />
      </div>
    </div>
  );
}
