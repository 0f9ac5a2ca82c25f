import { Suspense, useEffect, useRef } from "react";
import { setUi, useUi } from "@/state/ui";
import { cx } from "@/ui/cx";
import { IconButton } from "@/ui/IconButton";
import { DownIcon, UpIcon } from "@/ui/icons/icons";
import { Resizer } from "@/ui/Resizer";
import { Skeleton } from "@/ui/Skeleton";
import { Boundary } from "./Boundary";
import { focusConsole } from "./focus";
import { panels } from "./panels";
import { useRoute } from "./route";
import { useIsPhone } from "./useIsPhone";

const HEIGHT_MIN = 120;

/** The drawer at the bottom: as high as one likes, or closed to its handle. On a phone it has all the room or none. */
export function ConsoleDrawer() {
  const isOpen = useUi((state) => state.isConsoleOpen);
  const height = useUi((state) => state.consoleHeight);
  const isPhone = useIsPhone();
  const route = useRoute();
  const Console = panels.console;
  const wasOpen = useRef(false);
  useEffect(() => {
    if (!isPhone) return undefined;
    wasOpen.current = useUi.getState().isConsoleOpen;
    return () => setUi({ isConsoleOpen: wasOpen.current });
  }, [isPhone]);
  useEffect(() => {
    if (isPhone) setUi({ isConsoleOpen: false });
  }, [isPhone, route]);
  // A goal is read there; what happened step by step is one click away, on the canvas.
  if (Console === null || route.screen === "goals") return null;
  const max = Math.max(HEIGHT_MIN, window.innerHeight - 220);
  return (
    <section
      aria-label="Console"
      data-console
      className={cx("bg-panel", isPhone && isOpen ? "flex min-h-0 flex-1 flex-col" : "shrink-0")}
    >
      {isOpen && isPhone && <h1 className="sr-only">Console</h1>}
      {isOpen && !isPhone && (
        <Resizer
          label="Height of the console"
          orientation="horizontal"
          value={Math.min(height, max)}
          min={HEIGHT_MIN}
          max={max}
          perPx={-1}
          onChange={(consoleHeight) => setUi({ consoleHeight })}
        />
      )}
      <div
        className="relative min-h-0 max-tablet:grow"
        style={{ height: isOpen ? (isPhone ? 0 : Math.min(height, max)) : 32 }}
      >
        <div
          className={
            isOpen
              ? "absolute top-1.5 right-3 z-10"
              : "flex h-full items-center justify-between border-t border-line px-3"
          }
        >
          {!isOpen && <span className="text-12 text-ink-2">Console</span>}
          <IconButton
            label={isOpen ? "Close the console" : "Open the console"}
            shortcut="mod+j"
            side="top"
            size="small"
            aria-expanded={isOpen}
            icon={isOpen ? <DownIcon /> : <UpIcon />}
            onClick={() => {
              setUi({ isConsoleOpen: !isOpen });
              if (!isOpen) focusConsole();
            }}
          />
        </div>
        {isOpen && (
          <Boundary what="The console" retryKey="console">
            <Suspense fallback={<Skeleton label="the console" />}>
              <Console />
            </Suspense>
          </Boundary>
        )}
      </div>
    </section>
  );
}
