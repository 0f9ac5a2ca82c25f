import { Suspense } from "react";
import { Palette } from "@/commands/Palette";
import { dismissToast, useUi } from "@/state/ui";
import { Toasts } from "@/ui/Toasts";
import { Banner } from "./Banner";
import { Boundary } from "./Boundary";
import { ConsoleDrawer } from "./ConsoleDrawer";
import { InspectorColumn } from "./InspectorColumn";
import { panels } from "./panels";
import { Rail } from "./Rail";
import { ScreenView } from "./ScreenView";
import { TopBar } from "./TopBar";
import { useShortcuts } from "./useShortcuts";

/** The frame around every screen. */
export function Shell() {
  useShortcuts();
  const isPaletteOpen = useUi((state) => state.isPaletteOpen);
  const toasts = useUi((state) => state.toasts);
  const Approvals = panels.approvals;
  return (
    <>
      <a
        href="#main"
        className="sr-only focus:not-sr-only focus:absolute focus:top-2 focus:left-2 focus:z-50 focus:rounded-control focus:bg-panel focus:p-2"
      >
        Skip to the screen
      </a>
      <div className="grid h-full grid-cols-1 grid-rows-[auto_auto_minmax(0,1fr)_auto] [grid-template-areas:'top'_'banner'_'work'_'rail'] tablet:grid-cols-[auto_minmax(0,1fr)] tablet:grid-rows-[auto_auto_minmax(0,1fr)] tablet:[grid-template-areas:'rail_top'_'rail_banner'_'rail_work']">
        <TopBar />
        <Banner />
        <Rail />
        <div className="relative flex min-h-0 min-w-0 [grid-area:work] max-tablet:pb-[var(--notes,0px)]">
          <div className="flex min-h-0 min-w-0 flex-1 flex-col">
            {Approvals !== null && (
              <Boundary what="The approvals" retryKey="approvals">
                <Suspense fallback={null}>
                  <Approvals />
                </Suspense>
              </Boundary>
            )}
            <ScreenView />
            <ConsoleDrawer />
          </div>
          <InspectorColumn />
        </div>
      </div>
      {isPaletteOpen && <Palette />}
      <Toasts notes={toasts} onClose={dismissToast} />
    </>
  );
}
