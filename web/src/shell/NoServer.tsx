import { useEffect, useState } from "react";
import { useUi } from "@/state/ui";
import { Button } from "@/ui/Button";
import { ErrorState } from "@/ui/ErrorState";
import { boot } from "./boot";

/** Seconds after which a server that starts should have answered. */
const LONG_S = 15;

/** The first visit finds no server that answers: it starts, or it is away. The page comes by itself. */
export function WaitForServer() {
  const seconds = useSeconds();
  return (
    <main className="grid h-full place-items-center p-6">
      <div className="flex w-full max-w-90 flex-col gap-3 rounded-card border border-line bg-panel p-6">
        <h1 className="text-20">Waiting for the server</h1>
        <div role="status" className="flex flex-col gap-3">
          <p>It starts, or it is away for a moment. This page opens by itself as soon as it answers.</p>
          {seconds >= LONG_S && (
            <p className="text-ink-2">
              It has not answered for a while. Check that <code className="num">artelier up</code> is running:
              its terminal says what it is doing.
            </p>
          )}
        </div>
        <div aria-hidden="true" className="h-1 skeleton" />
        <div className="flex items-center justify-between gap-3 text-12 text-ink-2">
          <span>
            For <span className="num">{seconds} s</span>
          </span>
          <Button size="small" onClick={() => void boot()}>
            Try now
          </Button>
        </div>
      </div>
    </main>
  );
}

/** The server answers, and will not let this page in: it says why. */
export function Refused() {
  const refusal = useUi((state) => state.refusal);
  return (
    <main className="h-full">
      <ErrorState
        title={refusal?.title ?? "The server refuses this page."}
        advice={refusal?.advice ?? ""}
        onRetry={() => void boot()}
      />
    </main>
  );
}

function useSeconds(): number {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((before) => before + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  return seconds;
}
