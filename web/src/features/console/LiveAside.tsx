import { useProjection } from "@/state/log";
import type { Graph } from "@/projection/graph";
import { useUi } from "@/state/ui";
import { ActionButton } from "@/shell/ActionButton";
import { useCommand } from "@/shell/useCommand";
import { whole } from "@/ui/amounts";
import { PauseIcon, PlayIcon } from "@/ui/icons/icons";
import { useConsole } from "./consoleStore";

const countOf = (graph: Graph): number => graph.events;

/** Beside the tabs: whether the stream moves, and how to hold it. */
export function LiveAside() {
  const events = useProjection(countOf);
  const isPaused = useConsole((state) => state.pausedAt !== null);
  const isPast = useUi((state) => state.travel !== null);
  const { enabled, run } = useCommand("console.pause");
  const state = isPast ? "the past" : isPaused ? "paused" : "following";
  return (
    <span className="mr-8 flex items-center gap-2 max-desktop:text-11">
      <span className="max-tablet:hidden">
        {state} · <span className="num">{whole(events)}</span> {events === 1 ? "event" : "events"}
      </span>
      <ActionButton
        bare
        label={isPaused ? "Follow the stream" : "Pause the stream"}
        may={enabled}
        icon={isPaused ? <PlayIcon size={14} /> : <PauseIcon size={14} />}
        onClick={run}
      />
    </span>
  );
}
