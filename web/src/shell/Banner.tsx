import { useEffect, useState } from "react";
import type { LiveState } from "@/client/live";
import { dayAndTime } from "@/ui/time";
import { Button } from "@/ui/Button";
import { HistoryIcon, WarnIcon } from "@/ui/icons/icons";
import { useGraph } from "@/state/log";
import { useUi } from "@/state/ui";
import { boot } from "./boot";
import { CommandButton } from "./CommandButton";

const WORDS: Partial<Record<LiveState, string>> = {
  loading: "The server reads what happened so far. What is missing here comes by itself.",
  waiting: "The server does not answer yet. What is missing here comes by itself.",
  reconnecting: "Reconnecting. What you see may be a moment old.",
  stale: "No connection for a while: what you see is old. Check that `artelier up` is still running.",
  offline: "This device is offline. What you see is from before.",
};

/** What is read within this time needs no words. */
const QUIET_MS = 1_500;

/** Says when the screen does not show the present, and how to get back to it. */
export function Banner() {
  const live = useUi((state) => state.live);
  const travel = useUi((state) => state.travel);
  const isSlow = useIsAfter(QUIET_MS);
  const words = live === "loading" && !isSlow ? undefined : WORDS[live];
  return (
    <div aria-live="polite" className="[grid-area:banner]">
      {words !== undefined && (
        <div className="flex items-center gap-3 border-b border-warn bg-[color-mix(in_srgb,var(--warn)_12%,var(--panel))] px-4 py-1.5">
          <span className="text-warn">
            <WarnIcon />
          </span>
          <p className="flex-1">{words}</p>
          {live !== "offline" && live !== "loading" && (
            <Button size="small" onClick={() => void boot()}>
              Try now
            </Button>
          )}
        </div>
      )}
      {travel !== null && <PastBanner position={travel} />}
    </div>
  );
}

function useIsAfter(ms: number): boolean {
  const [isAfter, setAfter] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setAfter(true), ms);
    return () => clearTimeout(timer);
  }, [ms]);
  return isAfter;
}

function PastBanner({ position }: { readonly position: number }) {
  const graph = useGraph();
  return (
    <div className="flex items-center gap-3 border-b border-accent bg-[color-mix(in_srgb,var(--accent)_12%,var(--panel))] px-4 py-1.5">
      <span className="text-accent">
        <HistoryIcon />
      </span>
      <p className="flex-1">
        You are looking at the past: event <span className="num">{position}</span>
        {graph.atUs > 0 && `, ${dayAndTime(graph.atUs)}`}. Nothing can be changed here.
      </p>
      <CommandButton id="view.now" />
    </div>
  );
}
