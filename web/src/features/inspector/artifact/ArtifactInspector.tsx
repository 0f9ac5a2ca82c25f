import { useQueryClient } from "@tanstack/react-query";
import { address, inWords, path } from "@/client/http";
import { shortName } from "@/projection/event";
import { useGraph } from "@/state/log";
import { ArtifactsIcon } from "@/ui/icons/icons";
import { Tabs } from "@/ui/Tabs";
import { Head } from "../parts/Head";
import { Loaded } from "../parts/Loaded";
import { useInspector } from "../state";
import { AccessTab } from "./AccessTab";
import { ArtifactFacts } from "./ArtifactFacts";
import { ContentTab } from "./ContentTab";
import { LineageTab } from "./LineageTab";
import { ReadForPrice } from "./ReadForPrice";
import { useArtifact } from "./useArtifact";
import { VersionsTab } from "./VersionsTab";

/** An artifact: its content, versions, lineage and access. */
export function ArtifactInspector({ id }: { readonly id: string }) {
  const { query, key, version, quote } = useArtifact(id);
  const client = useQueryClient();
  const tab = useInspector((state) => state.artifactTab);
  const known = useGraph().artifacts.get(id);
  const title = query.data?.metadata?.["title"];
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Head
        icon={
          <span className="text-artifact">
            <ArtifactsIcon />
          </span>
        }
        name={typeof title === "string" && title !== "" ? title : (known?.title ?? shortName(id))}
        id={id}
      >
        {query.data !== undefined && (
          <ArtifactFacts
            shown={query.data}
            newest={known?.version ?? query.data.version}
            download={address(`${path("artifacts", id)}/content`, { version: query.data.version })}
          />
        )}
      </Head>
      <Loaded
        query={query}
        what="the artifact"
        rows={8}
        instead={(error) =>
          error.status === 403 || error.status === 409 ? (
            <ReadForPrice
              id={id}
              version={version}
              reason={inWords(error).title}
              onRead={(shown) => client.setQueryData(key, shown)}
            />
          ) : undefined
        }
      >
        {(shown) => (
          <Tabs
            label="Artifact"
            tabs={[
              {
                id: "content",
                label: "Content",
                content: <ContentTab key={`${shown.version} ${quote}`} shown={shown} quote={quote} />,
              },
              { id: "versions", label: "Versions", content: <VersionsTab id={id} version={shown.version} /> },
              { id: "lineage", label: "Lineage", content: <LineageTab id={id} /> },
              { id: "access", label: "Access", content: <AccessTab id={id} /> },
            ]}
            selected={tab}
            onSelect={(artifactTab) => useInspector.setState({ artifactTab })}
            className="flex-1"
          />
        )}
      </Loaded>
    </div>
  );
}
