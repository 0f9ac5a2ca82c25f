import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { shortName } from "@/projection/event";
import { useGraph } from "@/state/log";
import { dollars, whole } from "@/ui/amounts";
import { Loaded } from "../parts/Loaded";
import { Part } from "../parts/Part";
import { useDetail } from "../useDetail";

const ROWS_MAX = 100;
const CELL = "py-1 pl-3 text-right first:pl-0 first:text-left";

/** Each model step of the newest run with its tokens and its price. */
export function StepCosts({ runId }: { readonly runId: string }) {
  const revision = String(useGraph().runs.get(runId)?.spend.calls ?? 0);
  const query = useDetail<Shape<"Cost">>(
    ["run-cost", runId],
    (signal) => api.get(`${path("runs", runId)}/cost`, undefined, signal),
    revision,
  );
  return (
    <Part title={`By step, in ${shortName(runId)}`}>
      <Loaded query={query} what="the costs">
        {({ steps }) =>
          steps.length === 0 ? (
            <p className="text-ink-2">No model step is finished yet.</p>
          ) : (
            <table className="num w-full">
              <thead className="text-ink-2">
                <tr>
                  {["Step", "in", "out", "cost"].map((name) => (
                    <th key={name} scope="col" className={`${CELL} font-normal`}>
                      {name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {steps.slice(-ROWS_MAX).map((step) => (
                  <tr key={step.key} className="border-t border-line">
                    <th scope="row" className={`${CELL} font-normal break-all`}>
                      {step.key}
                    </th>
                    <td className={CELL}>{whole(step.input_tokens)}</td>
                    <td className={CELL}>{whole(step.output_tokens)}</td>
                    <td className={CELL}>{step.price_known ? dollars(step.cost_microusd) : "unknown"}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Loaded>
    </Part>
  );
}
