import { counted } from "@/projection/counted";
import type { Run } from "@/projection/graph";
import { Link } from "@/shell/Link";
import { href } from "@/shell/route";
import { screenComponent } from "@/shell/screens";
import { compact, dollars } from "@/ui/amounts";
import { dayAndTime } from "@/ui/time";
import { Facts } from "../parts/Facts";
import { Part } from "../parts/Part";
import { RefButton } from "../parts/RefButton";

/** Where a run comes from, how long it took and what it cost. */
export function RunFacts({ run }: { readonly run: Run }) {
  return (
    <Part title="Run">
      {run.message !== "" && <p className="break-words text-ink-2">{run.message}</p>}
      <Facts
        rows={[
          ["Agent", run.agent !== "" && <RefButton kind="agent" to={run.agent} />],
          ["Model", run.model],
          ["Why", run.reason],
          ["Part of", run.parent !== "" && <RefButton kind="run" to={run.parent} />],
          ["Forked from", run.origin !== "" && <RefButton kind="run" to={run.origin} />],
          ["Began", dayAndTime(run.startedUs)],
          ["Ended", run.endedUs === null ? "" : dayAndTime(run.endedUs)],
          ["Spent, itself", `${dollars(run.spend.microusd)} in ${counted(run.spend.calls, "call")}`],
          ["Tokens", `${compact(run.spend.inputTokens)} in, ${compact(run.spend.outputTokens)} out`],
        ].map(([name, value]) => [name as string, value === false ? "" : value] as const)}
      />
      {screenComponent("runs") !== undefined && (
        <Link to={href("runs", run.id)} className="text-accent underline">
          Its steps and prompts
        </Link>
      )}
    </Part>
  );
}
