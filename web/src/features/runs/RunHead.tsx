import { useQuery } from "@tanstack/react-query";
import { counted } from "@/projection/counted";
import type { Run } from "@/projection/graph";
import { Link } from "@/shell/Link";
import { href } from "@/shell/route";
import { select, useUi } from "@/state/ui";
import { compact, dollars, whole } from "@/ui/amounts";
import { Button } from "@/ui/Button";
import { dayAndTime } from "@/ui/time";
import { runQuery } from "./runQueries";
import { RunStatus } from "./RunStatus";
import { RunVerbs } from "./RunVerbs";

/** Name, standing and cost of a run, and what can be done with it. */
export function RunHead({ run }: { readonly run: Run }) {
  const isNow = useUi((state) => state.travel === null);
  const shown = useQuery({ ...runQuery(run), enabled: isNow });
  const total = isNow ? (shown.data?.total_cost_microusd ?? null) : null;
  const waits = isNow ? shown.data?.rate_wait : null;
  const left = isNow && (shown.data?.unknown_outcomes.length ?? 0) > 0;
  const message = run.message !== "" ? run.message : isNow ? said(shown.data?.message) : "";
  return (
    <header className="flex flex-col gap-2 border-b border-line px-4 py-3">
      <div className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
        <Link to={href("runs")} className="text-ink-2 underline hover:text-ink">
          Runs
        </Link>
        <h1 className="num min-w-0 text-15 font-semibold break-all">{run.id}</h1>
        <RunStatus run={run} />
        <Button size="small" variant="quiet" className="ml-auto" onClick={() => select("run", run.id)}>
          Inspect
        </Button>
      </div>
      {run.goal !== "" && <p className="max-w-200">{run.goal}</p>}
      {message !== "" && <p className="max-w-200 text-bad">{message}</p>}
      <dl className="flex flex-wrap gap-x-5 gap-y-1 text-12 text-ink-2">
        <Fact name="loop">{run.loop || "code of its own"}</Fact>
        {run.agent !== "" && <Fact name="agent">{run.agent}</Fact>}
        {run.model !== "" && <Fact name="model">{run.model}</Fact>}
        {run.parent !== "" && <Fact name="started by">{<RunLink id={run.parent} />}</Fact>}
        {run.origin !== "" && <Fact name="fork of">{<RunLink id={run.origin} />}</Fact>}
        {run.successor !== "" && <Fact name="goes on as">{<RunLink id={run.successor} />}</Fact>}
        <Fact name="started">{dayAndTime(run.startedUs)}</Fact>
        {waits && (
          <Fact name="waits for">
            the rate of {waits.rate}, until {dayAndTime(waits.until_us)} at least
          </Fact>
        )}
        {run.endedUs !== null && <Fact name="ended">{dayAndTime(run.endedUs)}</Fact>}
        <Fact name="calls">{whole(run.spend.calls)}</Fact>
        <Fact name="tokens">{compact(run.spend.inputTokens + run.spend.outputTokens)}</Fact>
        <Fact name="cost">
          {dollars(run.spend.microusd)}
          {total !== null && total !== run.spend.microusd && `, ${dollars(total)} with children`}
          {run.spend.unpriced > 0 && `, ${counted(run.spend.unpriced, "call")} of unknown price`}
        </Fact>
      </dl>
      <RunVerbs run={run} hasLeftCalls={left} />
    </header>
  );
}

function said(message: unknown): string {
  return typeof message === "string" ? message : "";
}

function RunLink({ id }: { readonly id: string }) {
  return (
    <Link to={href("runs", id)} className="text-accent underline">
      {id}
    </Link>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: React.ReactNode }) {
  return (
    <div className="flex gap-1.5">
      <dt>{name}</dt>
      <dd className="num text-ink">{children}</dd>
    </div>
  );
}
