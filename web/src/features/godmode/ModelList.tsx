import { useMemo } from "react";
import { useGraph } from "@/state/log";

/** Models that were asked here before, to choose from; any other can be typed. */
export function ModelList() {
  const { costs, runs } = useGraph();
  const models = useMemo(
    () =>
      [...new Set([...costs.byModel.keys(), ...[...runs.values()].map((run) => run.model)])].filter(Boolean),
    [costs, runs],
  );
  return (
    <datalist id="plan-models">
      {models.map((model) => (
        <option key={model} value={model} />
      ))}
    </datalist>
  );
}
