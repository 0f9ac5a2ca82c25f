import { isUnread } from "@/client/live";
import { useUi } from "@/state/ui";
import { EmptyState } from "@/ui/EmptyState";
import { Button } from "@/ui/Button";
import { Skeleton } from "@/ui/Skeleton";
import { Split } from "@/ui/Split";
import { setConsole, setFilter, useConsole } from "./consoleStore";
import { LookedContext } from "./LookedContext";
import { Stream } from "./Stream";
import { StreamFilter } from "./StreamFilter";
import { useRows } from "./useRows";

/** What happens, as it happens, beside what was seen when it did. */
export function LiveTab() {
  const live = useUi((state) => state.live);
  const { shown, agents, events, waiting } = useRows();
  const isPaused = useConsole((state) => state.pausedAt !== null);
  if (events + waiting === 0) {
    if (isUnread(live)) return <Skeleton label="the events" rows={6} />;
    return (
      <EmptyState title="Nothing has happened yet">
        Write a goal into the bar at the top: each decision, tool call and artifact appears here.
      </EmptyState>
    );
  }
  return (
    <Split
      label="Width of the stream"
      initial={55}
      first={
        <div className="flex h-full min-h-0 flex-col">
          <StreamFilter agents={agents} />
          {waiting > 0 && isPaused && (
            <p role="status" className="flex items-center gap-2 px-4 pb-1 text-12 text-warn">
              {waiting} newer events wait.
              <Button size="small" onClick={() => setConsole({ pausedAt: null })}>
                Follow
              </Button>
            </p>
          )}
          {shown.length === 0 ? (
            <EmptyState
              title="No event passes the filter"
              action={
                <Button size="small" onClick={() => setFilter({ group: "all", agent: "", text: "" })}>
                  Show every event
                </Button>
              }
            >
              {events} events are there; take something out of the filter to see them.
            </EmptyState>
          ) : (
            <Stream rows={shown} isFollowing={!isPaused} />
          )}
        </div>
      }
      second={<LookedContext />}
    />
  );
}
