import { useQuery } from "@tanstack/react-query";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { useGraph } from "@/state/log";
import { EmptyState } from "@/ui/EmptyState";
import { Loaded } from "../parts/Loaded";
import { SteeringForm } from "./SteeringForm";
import { usePolicy } from "./usePolicy";

/** Steering at a past moment: the version that was the newest then, to be looked at. */
export function SteeringThen({ about }: { readonly about: string }) {
  const id = `${about}/steering`;
  const version = useGraph().artifacts.get(id)?.version ?? 0;
  const query = useQuery({
    queryKey: ["artifact", id, version],
    queryFn: ({ signal }) =>
      api.get<{ readonly content: Shape<"Document"> }>(path("artifacts", id), { version }, signal),
    enabled: version > 0,
  });
  const document = query.data?.content;
  const policy = usePolicy(document?.xy ?? null, document?.sliders.safety ?? "open");
  if (version === 0) {
    return (
      <EmptyState title="Not steered yet">
        At that moment nobody had steered it. Go back to now to steer it.
      </EmptyState>
    );
  }
  return (
    <Loaded query={query} what="the steering of that moment" rows={8}>
      {({ content }) => (
        <SteeringForm
          document={content}
          inForce={content}
          policy={policy}
          effect={`This is version ${version}, as it was at the moment that you look at.`}
          disabled
          capped={null}
          used={null}
          iteration={0}
          onSave={() => undefined}
        />
      )}
    </Loaded>
  );
}
