import { shortName } from "@/projection/event";
import type { Graph, Run } from "@/projection/graph";
import { useGraph } from "@/state/log";
import { Status } from "@/ui/Badge";
import { type Doing, doingOf } from "./doing";
import { useNow } from "./useNow";
import type { Goal } from "./useGoals";

/** What its agents are at right now, with what keeps them waiting. */
export function LiveWork({ goal }: { readonly goal: Goal }) {
  const graph = useGraph();
  const now = useNow(true);
  const runs = atWork(graph, goal.id);
  if (runs.length === 0) return null;
  return (
    <section aria-label="At work now" className="flex max-w-176 flex-col gap-2.5">
      {runs.map((run) => (
        <Card key={run.id} name={nameOf(graph, run)} doing={doingOf(run, now)} />
      ))}
    </section>
  );
}

const SHOWN_MAX = 20;

function atWork(graph: Graph, goal: string): readonly Run[] {
  return [...graph.runs.values()]
    .filter((run) => run.doing !== "" && run.status === "running")
    .filter((run) => run.id === goal || run.id.startsWith(`${goal}/`))
    .slice(0, SHOWN_MAX);
}

function nameOf(graph: Graph, run: Run): string {
  return graph.agents.get(run.agent)?.name ?? (run.loop === "mission" ? "The planner" : shortName(run.id));
}

function Card({ name, doing }: { readonly name: string; readonly doing: Doing }) {
  return (
    <div className="flex flex-col gap-1.5 rounded-card border border-line bg-panel px-4.5 py-3.5">
      <div className="flex flex-wrap items-baseline justify-between gap-3">
        <h3 className="text-13 font-semibold">
          {name} {doing.what}
        </h3>
        <span className="num text-12">
          <Status tone={doing.isQuiet ? "warn" : "agent"}>
            {doing.seconds} s{doing.attemptWords !== "" && ` · ${doing.attemptWords}`}
          </Status>
        </span>
      </div>
      {doing.failed.map((words, index) => (
        <p key={index} className="text-12 text-ink-2">
          {words}
        </p>
      ))}
      {doing.isWaiting && <p className="text-12 text-warn">The next attempt begins in {doing.waitS} s.</p>}
      {doing.isQuiet && (
        <p className="text-12 text-warn">
          No sign of life for {doing.seconds} s. It is cut off at its time limit and tried again; Stop ends
          the wait now and keeps what there is.
        </p>
      )}
    </div>
  );
}
