import { CanvasView } from "@/canvas/CanvasView";
import type { Graph } from "@/projection/graph";
import { useGraph, useIsMissing, useIsUnread } from "@/state/log";
import { useUi } from "@/state/ui";
import { EmptyState } from "@/ui/EmptyState";
import { CanvasIcon } from "@/ui/icons/icons";
import { Skeleton } from "@/ui/Skeleton";
import { shownMission } from "@/projection/standing";
import { NoSuch } from "@/shell/NoSuch";
import { useRoute } from "@/shell/route";
import type { ScreenProps } from "@/shell/screens";
import { MissionHead } from "./MissionHead";

function isEmpty(graph: Graph): boolean {
  return graph.agents.size === 0 && graph.artifacts.size === 0 && graph.tasks.size === 0;
}

/** The canvas of one goal: that of the address, else the one that is spoken of; `?all=1` shows everything. */
export default function CanvasScreen({ id }: ScreenProps) {
  const { query } = useRoute();
  const chosen = useUi((state) => state.mission);
  const graph = useGraph();
  const isUnread = useIsUnread();
  const isMissing = useIsMissing("runs", id);
  const isPast = useUi((state) => state.travel !== null);
  if (isEmpty(graph) && isUnread) return <Skeleton isScreen label="what happened so far" rows={8} />;
  if (isEmpty(graph)) {
    return (
      <>
        <h1 className="sr-only">Canvas</h1>
        <EmptyState
          title={isPast ? "Nothing was here yet" : "Nobody works yet"}
          icon={<CanvasIcon size={28} />}
        >
          {isPast
            ? "At this moment there was no agent and no artifact; move forward in the timeline."
            : "Type a goal into the bar above and press Plan: you see who would work on what before anything begins."}
        </EmptyState>
      </>
    );
  }
  if (id !== null && isMissing && !isPast)
    return <NoSuch what="goal" id={id} to="/" link="See all goals" />;
  const mission = query["all"] === undefined ? shownMission(graph, id ?? chosen) : "";
  return (
    <div data-canvas className="flex h-full flex-col">
      <h1 className="sr-only">Canvas</h1>
      <MissionHead graph={graph} mission={mission} />
      <div className="relative min-h-0 flex-1">
        <CanvasView graph={graph} mission={mission} />
      </div>
    </div>
  );
}
