import { useMutation, useQueryClient, type UseQueryResult } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, api, inWords, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { useGraph } from "@/state/log";
import { toast } from "@/state/ui";
import { steeringRevision } from "../revisions";
import { useDetail } from "../useDetail";

export type SteeringShown = Shape<"SteeringShown">;
export type SteeringPatch = Omit<Shape<"SteeringPatch">, "expected_version">;

interface Steering {
  readonly query: UseQueryResult<SteeringShown>;
  /** With what is being saved already in it. */
  readonly shown: SteeringShown | undefined;
  readonly isSaving: boolean;
  readonly save: (patch: SteeringPatch) => void;
  /** What somebody else's change was faster than; null if nothing. */
  readonly lost: SteeringPatch | null;
  readonly forgetLost: () => void;
}

export function steeringKey(about: string): readonly string[] {
  return ["steering", about];
}

/** A document with a patch in it, as the server will have it. */
export function patched(shown: SteeringShown, patch: SteeringPatch): SteeringShown {
  return {
    ...shown,
    xy: { ...shown.xy, ...patch.xy },
    sliders: { ...shown.sliders, ...patch.sliders },
    tools: { ...shown.tools, ...(patch.tools as Record<string, boolean> | null | undefined) },
  };
}

/** Steering of an agent or membrane, and changing it: one change after the other, each on what one sees. */
export function useSteering(about: string): Steering {
  const client = useQueryClient();
  const key = steeringKey(about);
  const revision = `${steeringRevision(useGraph(), about)} ${useTurn(about)}`;
  const query = useDetail<SteeringShown>(
    key,
    (signal) => api.get(path("steering", about), undefined, signal),
    revision,
  );
  const [lost, setLost] = useState<SteeringPatch | null>(null);
  const change = useMutation({
    scope: { id: `steering ${about}` },
    mutationFn: (patch: SteeringPatch) => {
      const seen = client.getQueryData<SteeringShown>(key);
      return api.patch<SteeringShown>(path("steering", about), {
        ...patch,
        ...(seen && { expected_version: seen.version }),
      });
    },
    onSuccess: async (saved) => {
      client.setQueryData(key, saved);
      await client.invalidateQueries({ queryKey: ["agent"] });
      await client.invalidateQueries({ queryKey: ["next-prompt"] });
    },
    onError: async (error, patch) => {
      if (error instanceof ApiError && error.status === 409) {
        setLost(patch);
        await query.refetch();
      } else {
        const { title, advice } = inWords(error);
        toast(title, { tone: "bad", advice });
      }
    },
  });
  const { data } = query;
  const pending = change.isPending ? change.variables : undefined;
  return {
    query,
    shown: data !== undefined && pending !== undefined ? patched(data, pending) : data,
    isSaving: change.isPending,
    save: (patch) => {
      setLost(null);
      change.mutate(patch);
    },
    lost,
    forgetLost: () => setLost(null),
  };
}

/** Which iteration is at work: from where on a change counts moves with it. */
function useTurn(about: string): string {
  const graph = useGraph();
  const members = graph.membranes.get(about)?.members ?? [about];
  return [...members]
    .map((id) => `${graph.agents.get(id)?.task}:${graph.agents.get(id)?.iteration}`)
    .join(" ");
}
