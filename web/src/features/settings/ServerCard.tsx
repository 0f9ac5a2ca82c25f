import { useQuery } from "@tanstack/react-query";
import { api, inWords } from "@/client/http";
import type { Shape } from "@/client/types";
import type { LiveState } from "@/client/live";
import type { Graph } from "@/projection/graph";
import { useProjection } from "@/state/log";
import { useUi } from "@/state/ui";
import { whole } from "@/ui/amounts";
import { Fact, Facts, Section } from "./Section";

const CONNECTION: Readonly<Record<LiveState, string>> = {
  loading: "reading what happened so far",
  live: "connected, events arrive as they happen",
  reconnecting: "reconnecting",
  stale: "lost: check that `artelier up` is running",
  signed_out: "signed out",
  offline: "this device is offline",
};

const DAYS = 30;
const eventsOf = (graph: Graph): number => graph.position;

function namesOf({ items }: Shape<"Spending">): string {
  const names = new Set(items.map((one) => one.model).filter((name) => name !== ""));
  return [...names].sort().join(", ") || "none";
}

/** What this page talks to. */
export function ServerCard() {
  const me = useUi((state) => state.me);
  const live = useUi((state) => state.live);
  const models = useQuery({
    queryKey: ["settings", "models", me?.tenant],
    queryFn: ({ signal }) => api.get<Shape<"Spending">>("/ledger/costs", { days: DAYS }, signal),
    select: namesOf,
  });
  const position = useProjection(eventsOf);
  return (
    <Section title="Server">
      <Facts>
        <Fact name="Version">
          Artelier <span className="num">{me?.version}</span>
        </Fact>
        <Fact name="Address">
          <span className="num">{window.location.host}</span>
        </Fact>
        <Fact name="Connection">{CONNECTION[live]}</Fact>
        <Fact name="Newest event">
          <span className="num">{whole(position)}</span>
        </Fact>
        <Fact name="Models called">
          {models.error !== null ? (
            `not known: ${inWords(models.error).title}`
          ) : (
            <>
              <span className="num">{models.data}</span> in {DAYS} days
            </>
          )}
        </Fact>
        {me !== null && me.features.length > 0 && <Fact name="Offers">{me.features.join(", ")}</Fact>}
      </Facts>
    </Section>
  );
}
