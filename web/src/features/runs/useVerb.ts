import { useMutation } from "@tanstack/react-query";
import { api, inWords, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { queryClient } from "@/client/queries";
import { toast } from "@/state/ui";
import { LABELS, type Verb } from "./verbs";

interface Asked {
  readonly verb: Exclude<Verb, "fork" | "compensate">;
  readonly body?: Readonly<Record<string, unknown>>;
}

/** Asks the server to do something to a run. The effect arrives as an event; a refusal is told. */
export function useVerb(runId: string) {
  return useMutation({
    mutationFn: ({ verb, body }: Asked) =>
      api.post<Shape<"Effect">>(`${path("runs", runId)}/${verb}`, body ?? {}),
    onError: (error, { verb }) => {
      const { title, advice } = inWords(error);
      toast(`${LABELS[verb]}: ${title}`, { tone: "bad", advice });
    },
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["runs", runId] }),
  });
}
