import { useMemo, useState } from "react";
import { inWords } from "@/client/http";
import { tickAfter } from "@/projection/pulse";
import { useEvents } from "@/state/log";
import { useUi } from "@/state/ui";
import { useWorldFigures } from "@/state/useWorldFigures";
import { Badge } from "@/ui/Badge";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { Tabs } from "@/ui/Tabs";
import { Offers } from "./Offers";
import { offersAt } from "./offersAt";
import { Prices } from "./Prices";
import { useMarket } from "./useMarket";

interface MarketViewProps {
  readonly world: string;
  readonly kind: string;
  readonly onKind: (kind: string) => void;
}

/** The market of one world; of the past as it stood after the tick that one has travelled to. */
export function MarketView({ world, kind, onKind }: MarketViewProps) {
  const { data: market, error, refetch } = useMarket(world);
  const figures = useWorldFigures(world, { span: 200 });
  const [tab, setTab] = useState("open");
  const events = useEvents();
  const isPast = useUi((state) => state.travel) !== null;
  const asOf = useMemo(() => (isPast ? tickAfter(events, world) : null), [isPast, events, world]);
  const shown = useMemo(() => (market === undefined ? null : offersAt(market, asOf)), [market, asOf]);
  if (market === undefined || shown === null) {
    if (error === null) return <Skeleton label={`the market of ${world}`} rows={8} />;
    const { title, advice } = inWords(error);
    return <ErrorState title={title} advice={advice} onRetry={refetch} />;
  }
  const tick = asOf ?? market.tick;
  return (
    <>
      {error !== null && (
        <p role="alert" className="border-b border-line px-4 py-1.5 text-12 text-warn">
          What is shown is old: {inWords(error).title}
        </p>
      )}
      <Tabs
        label={`Market of ${world}`}
        className="flex-1"
        selected={tab}
        onSelect={setTab}
        aside={<span className="num">tick {tick}</span>}
        tabs={[
          {
            id: "open",
            label: "Open offers",
            badge: <Badge count={shown.open.length} label="open offers" tone="money" />,
            content: (
              <Offers
                label="Open offers"
                world={world}
                offers={shown.open}
                kind={kind}
                onKind={onKind}
                isOpen
              />
            ),
          },
          {
            id: "closed",
            label: "Sold and closed",
            content: (
              <Offers
                label="Sold and closed offers"
                world={world}
                offers={shown.closed}
                kind={kind}
                onKind={onKind}
                isOpen={false}
              />
            ),
          },
          {
            id: "prices",
            label: "Prices",
            content: (
              <Prices
                figures={(figures.data ?? []).filter((one) => asOf === null || one.tick <= asOf)}
                error={figures.error}
                isPending={figures.isPending}
              />
            ),
          },
        ]}
      />
    </>
  );
}
