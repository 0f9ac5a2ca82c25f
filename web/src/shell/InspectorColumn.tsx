import { Suspense } from "react";
import { setUi, useUi } from "@/state/ui";
import { cx } from "@/ui/cx";
import { BackIcon } from "@/ui/icons/icons";
import { Resizer } from "@/ui/Resizer";
import { Skeleton } from "@/ui/Skeleton";
import { Boundary } from "./Boundary";
import { panels } from "./panels";
import { useRoute } from "./route";

const WIDTH_MIN = 300;
const WIDTH_MAX = 640;

/** The column on the right. On a tablet it lies over the screen, on a phone it fills it. */
export function InspectorColumn() {
  const isOpen = useUi((state) => state.isInspectorOpen);
  const selection = useUi((state) => state.selection);
  const width = useUi((state) => state.inspectorWidth);
  const Inspector = panels.inspector;
  const { screen } = useRoute();
  if (Inspector === null || !isOpen || (screen !== "canvas" && selection === null)) return null;
  return (
    <aside
      aria-label="Inspector"
      className={cx(
        "flex min-h-0 bg-panel max-desktop:absolute max-desktop:inset-y-0 max-desktop:right-0 max-desktop:z-20 max-tablet:left-0 max-tablet:flex-col",
        selection === null && "max-desktop:hidden",
      )}
    >
      <Resizer
        label="Width of the inspector"
        orientation="vertical"
        value={width}
        min={WIDTH_MIN}
        max={WIDTH_MAX}
        perPx={-1}
        onChange={(inspectorWidth) => setUi({ inspectorWidth })}
        className="max-tablet:hidden"
      />
      <button
        type="button"
        className="hidden shrink-0 items-center gap-1.5 border-b border-line px-4 text-left font-semibold text-accent -outline-offset-2 max-tablet:flex max-tablet:min-h-11"
        onClick={() => setUi({ selection: null })}
      >
        <BackIcon />
        Back to the screen
      </button>
      <div
        data-inspector
        tabIndex={-1}
        className="min-h-0 min-w-0 flex-1 overflow-auto outline-none scroll-thin max-tablet:!w-full"
        style={{ width: Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, width)) }}
      >
        <Boundary what="The inspector" retryKey={`${selection?.kind ?? ""} ${selection?.id ?? ""}`}>
          <Suspense fallback={<Skeleton label="the inspector" />}>
            <Inspector />
          </Suspense>
        </Boundary>
      </div>
    </aside>
  );
}
