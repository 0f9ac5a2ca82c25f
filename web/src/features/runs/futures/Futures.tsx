import { inWords } from "@/client/http";
import { counted } from "@/projection/counted";
import type { Run } from "@/projection/graph";
import { href } from "@/shell/route";
import { Link } from "@/shell/Link";
import { dollars, compact } from "@/ui/amounts";
import { ErrorState } from "@/ui/ErrorState";
import { PageHead } from "@/ui/PageHead";
import { Skeleton } from "@/ui/Skeleton";
import { RunStatus } from "../RunStatus";
import { DecisionPairs } from "./DecisionPairs";
import { changeWords, type Future, pairsOf } from "./future";
import { Outputs } from "./Outputs";
import { useFuture } from "./useFuture";

/** A run and a fork of it side by side: what each decided, what each made, what each cost. */
export function Futures({ a, b }: { readonly a: Run; readonly b: Run }) {
  const [left, right] = [useFuture(a), useFuture(b)];
  const error = left.error ?? right.error;
  if (error !== null) return <ErrorState {...inWords(error)} onRetry={() => window.location.reload()} />;
  if (left.future === undefined || right.future === undefined)
    return <Skeleton label="the two futures" rows={8} />;
  const pairs = pairsOf(left.future, right.future);
  const same = pairs.findIndex((pair) => !pair.isSame);
  const change = changeWords(right.shown?.changes ?? left.shown?.changes);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <PageHead
        title="Two futures"
        note={
          <>
            {change === "" ? "Nothing was changed" : `Changed: ${change}`}.{" "}
            {same < 0 ? "They decide the same" : `They share ${counted(same, "decision")}, then part`}.
          </>
        }
      >
        <Link to={href("runs", a.id)} className="text-12 text-accent underline">
          Back to the run
        </Link>
      </PageHead>
      <div
        tabIndex={0}
        role="region"
        aria-label="Both futures"
        className="min-h-0 flex-1 overflow-auto px-4 pb-4 -outline-offset-2 scroll-thin"
      >
        <div className="grid grid-cols-2 gap-3">
          <Head run={a} future={left.future} name={a.origin === b.id ? "The fork" : "As it was"} />
          <Head run={b} future={right.future} name={b.origin === a.id ? "The fork" : "The other run"} />
        </div>
        <DecisionPairs pairs={pairs} />
        <Outputs a={left.future} b={right.future} />
      </div>
    </div>
  );
}

function Head({ run, future, name }: { readonly run: Run; readonly future: Future; readonly name: string }) {
  const facts = [
    counted(future.decisions.length, run.loop === "task" ? "decision" : "step"),
    dollars(future.microusd),
    `${compact(future.tokens)} tok`,
    future.criteria === 0 ? "" : `judged ${future.met} of ${future.criteria} criteria`,
  ];
  return (
    <section aria-label={name} className="min-w-0 rounded-card border border-line bg-panel p-3">
      <h2 className="text-13 font-semibold">{name}</h2>
      <p className="num truncate text-12 text-ink-2">
        <Link to={href("runs", run.id)} className="underline">
          {run.id}
        </Link>
      </p>
      <p className="flex flex-wrap gap-x-3 text-12">
        <RunStatus run={run} />
        <span className="num text-ink-2">{facts.filter(Boolean).join(" · ")}</span>
      </p>
    </section>
  );
}
