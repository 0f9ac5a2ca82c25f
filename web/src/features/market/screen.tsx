import { useState } from "react";
import { inWords } from "@/client/http";
import { Link } from "@/shell/Link";
import { href, navigate, useRoute } from "@/shell/route";
import { useWorlds } from "@/state/useWorlds";
import { EmptyState } from "@/ui/EmptyState";
import { ErrorState } from "@/ui/ErrorState";
import { MarketIcon } from "@/ui/icons/icons";
import { Select } from "@/ui/Select";
import { Skeleton } from "@/ui/Skeleton";
import { MarketView } from "./MarketView";

/** What is for sale, what was sold and at which prices, in one world. */
export default function MarketScreen() {
  const { query } = useRoute();
  const worlds = useWorlds();
  const [first] = worlds.data?.items ?? [];
  const world = query["world"] ?? first?.id ?? "";
  const [kind, setKind] = useState("");
  if (worlds.data === undefined) {
    if (worlds.error === null) return <Skeleton label="the worlds" rows={6} />;
    const { title, advice } = inWords(worlds.error);
    return <ErrorState title={title} advice={advice} onRetry={worlds.refetch} />;
  }
  if (world === "") {
    return (
      <EmptyState
        title="There is no market yet"
        icon={<MarketIcon size={28} />}
        action={
          <Link to={href("world", null, { new: "1" })} className="text-accent underline">
            Make a world
          </Link>
        }
      >
        Each world has one: make a world, and its agents offer, buy and sell as ticks pass.
      </EmptyState>
    );
  }
  const items = worlds.data.items;
  const options = items.some((one) => one.id === world) ? items : [{ id: world }, ...items];
  return (
    <div className="@container flex h-full flex-col">
      <header className="flex flex-wrap items-center gap-3 border-b border-line px-4 py-2">
        <h1 className="flex-1 text-15">Market</h1>
        <Select
          bare
          label="World"
          value={world}
          options={options.map(({ id }) => ({ value: id, label: `world ${id}` }))}
          onChange={(chosen) => navigate(href("market", null, { world: chosen }))}
        />
      </header>
      <MarketView key={world} world={world} kind={kind} onKind={setKind} />
    </div>
  );
}
