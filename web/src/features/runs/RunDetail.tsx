import { useState } from "react";
import type { Graph } from "@/projection/graph";
import { Link } from "@/shell/Link";
import { href } from "@/shell/route";
import { useGraph, useIsUnread } from "@/state/log";
import { useUi } from "@/state/ui";
import { EmptyState } from "@/ui/EmptyState";
import { Skeleton } from "@/ui/Skeleton";
import { Tabs } from "@/ui/Tabs";
import { CompareTab } from "./CompareTab";
import { RunEvents } from "./RunEvents";
import { RunHead } from "./RunHead";
import { StepsTab } from "./StepsTab";
import { TreeTab } from "./TreeTab";

const TABS = [
  { id: "steps", label: "Steps" },
  { id: "events", label: "Events" },
  { id: "tree", label: "Tree" },
  { id: "compare", label: "Compare" },
] as const;

/** One run: where it stands, what can be done with it, every step and every prompt. */
export function RunDetail({ id }: { readonly id: string }) {
  const graph = useGraph();
  const [tab, setTab] = useState("steps");
  const run = graph.runs.get(id);
  if (run === undefined) return <Missing id={id} graph={graph} />;
  const content = {
    steps: <StepsTab run={run} />,
    events: <RunEvents run={run} />,
    tree: <TreeTab run={run} />,
    compare: <CompareTab run={run} />,
  };
  return (
    <div className="flex h-full min-h-0 flex-col max-tablet:h-auto">
      <RunHead run={run} />
      <Tabs
        label="Parts of the run"
        className="min-h-0 flex-1 max-tablet:h-[80dvh] max-tablet:flex-none"
        selected={tab}
        onSelect={setTab}
        tabs={TABS.map((one) => ({ ...one, content: one.id === tab ? content[one.id] : null }))}
      />
    </div>
  );
}

function Missing({ id, graph }: { readonly id: string; readonly graph: Graph }) {
  const isUnread = useIsUnread();
  const isPast = useUi((state) => state.travel !== null);
  if (isUnread) return <Skeleton isScreen label="the run" rows={6} />;
  return (
    <EmptyState
      title={isPast ? "This run had not begun" : "There is no such run"}
      action={
        <Link to={href("runs")} className="text-accent underline">
          See all {graph.runs.size} runs
        </Link>
      }
    >
      {isPast ? `Move on in time, or go back to now, to see ${id}.` : `Nothing is known of ${id}.`}
    </EmptyState>
  );
}
