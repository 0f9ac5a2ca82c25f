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

const modelsOf = (graph: Graph): string => [...graph.costs.byModel.keys()].sort().join(", ");
const eventsOf = (graph: Graph): number => graph.position;

/** What this page talks to. */
export function ServerCard() {
  const me = useUi((state) => state.me);
  const live = useUi((state) => state.live);
  const models = useProjection(modelsOf);
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
        <Fact name="Models called">{models === "" ? "none yet" : <span className="num">{models}</span>}</Fact>
        {me !== null && me.features.length > 0 && <Fact name="Offers">{me.features.join(", ")}</Fact>}
      </Facts>
    </Section>
  );
}
