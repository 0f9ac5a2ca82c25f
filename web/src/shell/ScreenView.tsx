import { Suspense, useEffect, useRef } from "react";
import { EmptyState } from "@/ui/EmptyState";
import { Skeleton } from "@/ui/Skeleton";
import { Boundary } from "./Boundary";
import { Link } from "./Link";
import { useRoute } from "./route";
import { screenComponent, screenOf } from "./screens";
import { useShownScreen } from "./useShownScreen";

export function ScreenView() {
  const route = useRoute();
  const id = useShownScreen();
  const screen = screenOf(id);
  const Component = screenComponent(id);
  const main = useRef<HTMLElement>(null);
  const before = useRef(id);

  useEffect(() => {
    document.title = screen === undefined ? "Artelier" : `${screen.label} · Artelier`;
    // A change of screen is told to screen readers by moving the focus, not on the first visit.
    if (before.current !== id) main.current?.focus();
    before.current = id;
  }, [id, screen]);

  return (
    <main
      ref={main}
      id="main"
      tabIndex={-1}
      aria-label={screen?.label ?? "Not found"}
      className="relative min-h-0 flex-1 overflow-auto outline-none scroll-thin"
    >
      {Component === undefined || screen === undefined ? (
        <EmptyState
          title="There is no such page"
          action={
            <Link to="/" className="text-accent underline">
              Go to the start
            </Link>
          }
        >
          The address leads nowhere; every page there is stands in the rail.
        </EmptyState>
      ) : (
        <Boundary what={screen.label} retryKey={`${id} ${route.id ?? ""}`}>
          <Suspense fallback={<Skeleton label={screen.label} rows={6} />}>
            <Component id={route.id} />
          </Suspense>
        </Boundary>
      )}
    </main>
  );
}
