import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import type { Agent } from "@/projection/graph";
import { useUi } from "@/state/ui";
import { compact, whole } from "@/ui/amounts";
import { Meter } from "@/ui/Meter";
import { Vital } from "./Vital";

/** How much of its model's window the next prompt of an agent will take; not there if it has nothing to do. */
export function ContextGauge({ agent }: { readonly agent: Agent }) {
  const client = useQueryClient();
  const isNow = useUi((state) => state.travel === null);
  const { data } = useQuery({
    queryKey: ["next-prompt", agent.id],
    queryFn: ({ signal }) =>
      api.get<Shape<"Ahead">>(`${path("agents", agent.id)}/next-prompt`, undefined, signal),
    retry: false,
    enabled: isNow,
  });
  useEffect(() => {
    void client.invalidateQueries({ queryKey: ["next-prompt", agent.id] });
  }, [client, agent.id, agent.task, agent.iteration]);
  const prompt = data?.prompt ?? null;
  if (prompt === null || !isNow) return null;
  const words = `${whole(prompt.tokens)} of ${whole(prompt.budget_tokens)} tokens`;
  return (
    <Vital label="context" title={`Next prompt of ${agent.name}: ${words}, an estimate`}>
      <span className="flex items-center gap-2">
        {compact(prompt.tokens)} of {compact(prompt.budget_tokens)}
        <Meter
          label="Share of the window that the next prompt takes"
          value={prompt.tokens}
          max={prompt.budget_tokens}
          valueText={words}
          className="w-12"
        />
      </span>
    </Vital>
  );
}
