import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { useGraph } from "@/state/log";
import { Facts } from "../parts/Facts";
import { Loaded } from "../parts/Loaded";
import { Part } from "../parts/Part";
import { artifactRevision } from "../revisions";
import { useDetail } from "../useDetail";
import { Sharing } from "./Sharing";

function price(scrip: number): string {
  return scrip === 0 ? "free" : `${scrip} scrip`;
}

/** Who may do what with it, in words, at which price, and in which membranes it is shared. */
export function AccessTab({ id }: { readonly id: string }) {
  const graph = useGraph();
  const shared = graph.artifacts.get(id)?.membranes ?? [];
  const query = useDetail<Shape<"ArtifactAccess">>(
    ["artifact-access", id],
    (signal) => api.get(`${path("artifacts", id)}/access`, undefined, signal),
    `${artifactRevision(graph, id)} ${shared.join(" ")}`,
  );
  return (
    <Loaded query={query} what="its access">
      {(access) => (
        <>
          <Part title="Who may use it">
            <ul className="flex flex-col gap-1">
              {access.words.map((sentence) => (
                <li key={sentence} className="break-words">
                  {sentence}
                </li>
              ))}
            </ul>
          </Part>
          <Part title="Owner and price">
            <Facts
              rows={[
                ["Owner", access.owner],
                ["Made by", access.creator],
                ["Reading", price(access.prices.read ?? 0)],
                ["Calling", price(access.prices.invoke ?? 0)],
                ["In a prompt", price(access.prices.inclusion ?? 0)],
              ]}
            />
          </Part>
          <Part title="Shared in membranes">
            <Sharing id={id} shared={shared} />
          </Part>
          <Part title="What people here may do">
            <Facts
              rows={access.people.map((one) => [
                one.action,
                one.allowed ? (
                  one.price > 0 ? (
                    `yes, for ${price(one.price)}`
                  ) : (
                    "yes"
                  )
                ) : (
                  <span key={one.action} title={one.reason}>
                    no right
                  </span>
                ),
              ])}
            />
          </Part>
        </>
      )}
    </Loaded>
  );
}
