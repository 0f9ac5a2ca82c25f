import { useMemo } from "react";
import { shortName } from "@/projection/event";
import type { Graph, Run } from "@/projection/graph";
import { type RunLine, runTree } from "@/projection/timelineRuns";
import { Link } from "@/shell/Link";
import { href } from "@/shell/route";
import { useGraph } from "@/state/log";
import { dollars } from "@/ui/amounts";
import { RunStatus } from "./RunStatus";

function rootOf(graph: Graph, run: Run): Run {
  let at = run;
  const seen = new Set([run.id]);
  for (;;) {
    const parent = graph.runs.get(at.parent);
    if (parent === undefined || seen.has(parent.id)) return at;
    seen.add(parent.id);
    at = parent;
  }
}

/** The tree that a run stands in, with what each branch has cost; and what was forked off it. */
export function TreeTab({ run }: { readonly run: Run }) {
  const graph = useGraph();
  const lines = useMemo(() => {
    const all = runTree(graph);
    const from = all.findIndex((line) => line.run.id === rootOf(graph, run).id);
    const to = all.findIndex((line, index) => index > from && line.depth === 0);
    return all.slice(from, to < 0 ? undefined : to);
  }, [graph, run]);
  const forks = [...graph.runs.values()].filter((one) => one.origin === run.id);
  return (
    <div className="px-4 py-2">
      <ul aria-label="Tree of runs">
        {lines.map((line) => (
          <Branch key={line.run.id} line={line} isShown={line.run.id === run.id} />
        ))}
      </ul>
      <h2 className="mt-3 text-13">Forks</h2>
      {forks.length === 0 && <p className="text-ink-2">Nothing was forked off this run yet.</p>}
      <ul>
        {forks.map((fork) => (
          <Branch
            key={fork.id}
            line={{ run: fork, depth: 0, microusd: fork.spend.microusd }}
            isShown={false}
          />
        ))}
      </ul>
    </div>
  );
}

function Branch({ line, isShown }: { readonly line: RunLine; readonly isShown: boolean }) {
  const { run, depth, microusd } = line;
  return (
    <li className="flex min-h-7 items-center gap-3 border-b border-line text-12">
      <span className="min-w-0 flex-1 truncate" style={{ paddingLeft: depth * 20 }}>
        {depth > 0 && <span className="text-ink-3">└ </span>}
        {isShown ? (
          <strong className="num" aria-current="true">
            {shortName(run.id)}
          </strong>
        ) : (
          <Link to={href("runs", run.id)} className="num underline hover:text-accent">
            {depth > 0 ? shortName(run.id) : run.id}
          </Link>
        )}
      </span>
      <RunStatus run={run} />
      <span className="num w-20 text-right">{dollars(microusd)}</span>
    </li>
  );
}
