import { inWords } from "@/client/http";
import type { LiveState } from "@/client/live";
import { type ServerShown, useServer } from "@/client/server";
import type { Graph } from "@/projection/graph";
import { useProjection } from "@/state/log";
import { useUi } from "@/state/ui";
import { whole } from "@/ui/amounts";
import { ErrorState } from "@/ui/ErrorState";
import { bytes } from "@/ui/sizes";
import { Skeleton } from "@/ui/Skeleton";
import { keyWords } from "./keyWords";
import { Fact, Facts, Section } from "./Section";

const CONNECTION: Readonly<Record<LiveState, string>> = {
  loading: "reading what happened so far",
  live: "connected, events arrive as they happen",
  reconnecting: "reconnecting",
  stale: "lost: check that `artelier up` is running",
  signed_out: "signed out",
  offline: "this device is offline",
  waiting: "none yet: the server does not answer",
};

const eventsOf = (graph: Graph): number => graph.position;

/** What this page talks to, and how it was started. */
export function ServerCard() {
  const live = useUi((state) => state.live);
  const features = useUi((state) => state.me?.features) ?? [];
  const position = useProjection(eventsOf);
  const { data, error, refetch } = useServer();
  return (
    <Section title="Server">
      <Facts>
        <Fact name="Address">
          <span className="num">{window.location.host}</span>
        </Fact>
        <Fact name="Connection">{CONNECTION[live]}</Fact>
        <Fact name="Newest event">
          <span className="num">{whole(position)}</span>
        </Fact>
        {data !== undefined && <Started server={data} />}
        {features.length > 0 && <Fact name="Offers">{features.join(", ")}</Fact>}
      </Facts>
      {data === undefined &&
        (error === null ? (
          <Skeleton label="the server" rows={3} />
        ) : (
          <ErrorState {...inWords(error)} onRetry={() => void refetch()} />
        ))}
    </Section>
  );
}

function Started({ server }: { readonly server: ServerShown }) {
  const { model, models, workspace } = server;
  return (
    <>
      <Fact name="Version">
        Artelier <span className="num">{server.version}</span>
      </Fact>
      <Fact name="Model">
        <span className="num">{model}</span>, of whatever names none
      </Fact>
      <Fact name="Keys">{keyWords(models)}</Fact>
      <Fact name="Database">
        <span className="num">{server.database}</span>
      </Fact>
      <Fact name="Workspace">
        {workspace === "" ? (
          "none: tools of new goals read no folder"
        ) : (
          <span className="num">{workspace}</span>
        )}
      </Fact>
      <Fact name="Worker">
        {server.has_worker ? "this server drives runs" : "this server drives no runs; a worker must"}
      </Fact>
      <Fact name="Lag">
        <span className="num">{whole(server.lag.p99_ms)} ms</span> for 99 of 100 in the last minute,{" "}
        <span className="num">{whole(server.lag.max_ms)} ms</span> at most
      </Fact>
      <Fact name="Uploads">up to {bytes(server.upload_bytes_max)} at once</Fact>
    </>
  );
}
