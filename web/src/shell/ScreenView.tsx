import { Suspense, useEffect, useRef } from "react";
import { useUi } from "@/state/ui";
import { cx } from "@/ui/cx";
import { EmptyState } from "@/ui/EmptyState";
import { Skeleton } from "@/ui/Skeleton";
import { Boundary } from "./Boundary";
import { Link } from "./Link";
import { useRoute } from "./route";
import { screenComponent, screenOf } from "./screens";
import { useIsPhone } from "./useIsPhone";
import { useShownScreen } from "./useShownScreen";

export function ScreenView() {
  const route = useRoute();
  const id = useShownScreen();
  const screen = screenOf(id);
  const Component = screenComponent(id);
  const isPhone = useIsPhone();
  const isConsoleOpen = useUi((state) => state.isConsoleOpen);
  /** The console has the whole room then; what was on the screen is there again after it. */
  const isCovered = isPhone && isConsoleOpen;
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
      className={cx(
        "relative min-h-0 outline-none scroll-thin",
        isCovered ? "h-0 flex-none overflow-hidden" : "flex-1 overflow-auto",
      )}
    >
      <div className="contents" inert={isCovered}>
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
            <Suspense fallback={<Skeleton isScreen label={screen.label} rows={6} />}>
              <Component id={route.id} />
            </Suspense>
          </Boundary>
        )}
      </div>
    </main>
  );
}
