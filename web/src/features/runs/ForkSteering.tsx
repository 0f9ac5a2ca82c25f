import { useQuery } from "@tanstack/react-query";
import { api, inWords, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { SteeringForm } from "../inspector/steering/SteeringForm";
import { usePolicy } from "../inspector/steering/usePolicy";

/** A whole steering document, as a fork takes it in place of its agent's own. */
export type ForkedSteering = Shape<"Document">;

interface ForkSteeringProps {
  readonly agent: string;
  /** null as long as it is that of the agent. */
  readonly steering: ForkedSteering | null;
  readonly onChange: (steering: ForkedSteering) => void;
}

/** Steering for a fork alone: begins as the agent's is now, and leaves that as it is. */
export function ForkSteering({ agent, steering, onChange }: ForkSteeringProps) {
  const { data, error, refetch } = useQuery({
    queryKey: ["steering", agent],
    queryFn: ({ signal }) => api.get<Shape<"SteeringShown">>(path("steering", agent), undefined, signal),
  });
  const policy = usePolicy(steering === null ? null : steering.xy, steering?.sliders.safety ?? "open");
  if (error !== null) return <ErrorState {...inWords(error)} onRetry={() => void refetch()} />;
  if (data === undefined) return <Skeleton label="the steering" rows={6} />;
  const { xy, axes, sliders, tools } = data;
  const now = steering ?? { xy, axes, sliders, tools };
  return (
    <section aria-label="Steering of the fork" className="rounded-card border border-line">
      <SteeringForm
        document={now}
        inForce={now}
        policy={steering === null ? data.policy : policy}
        effect="Holds for the fork alone. Membranes of the agent still allow no more than they do."
        disabled={false}
        capped={null}
        used={null}
        iteration={0}
        onSave={(patch) =>
          onChange({
            ...now,
            xy: { ...now.xy, ...patch.xy },
            sliders: { ...now.sliders, ...patch.sliders },
          })
        }
      />
    </section>
  );
}
