import { useState } from "react";
import { setUi } from "@/state/ui";
import { Dialog } from "@/ui/Dialog";
import { cx } from "@/ui/cx";
import { MoreIcon } from "@/ui/icons/icons";
import { Link } from "./Link";
import { builtScreens, type Screen } from "./screens";

/** What a thumb reaches; without a canvas its place is the overview's. */
const FIRST: readonly string[] = ["goals", "canvas", "overview", "chat", "artifacts"];

/** The bottom of a phone: the first screens with their names, the others behind “More”. */
export function PhoneNav({ isCurrent }: { readonly isCurrent: (screen: Screen) => boolean }) {
  const [isOpen, setOpen] = useState(false);
  const screens = builtScreens().filter((screen) => screen.inRail);
  const fitting = screens.filter((screen) => FIRST.includes(screen.id));
  const rest = screens.filter((screen) => !FIRST.includes(screen.id));
  return (
    <nav aria-label="Screens" className="flex shrink-0 border-t border-line bg-panel [grid-area:rail]">
      {fitting.map((screen) => (
        <PhoneLink key={screen.id} screen={screen} isCurrent={isCurrent(screen)} />
      ))}
      {rest.length > 0 && (
        <button
          type="button"
          aria-haspopup="dialog"
          aria-current={rest.some(isCurrent) ? "page" : undefined}
          onClick={() => setOpen(true)}
          className={cx(ITEM, rest.some(isCurrent) ? "text-ink" : "text-ink-2")}
        >
          <MoreIcon size={18} />
          {rest.find(isCurrent)?.label ?? "More"}
        </button>
      )}
      {isOpen && (
        <Dialog title="More screens" width="narrow" onClose={() => setOpen(false)}>
          <ul className="flex flex-col gap-1">
            {rest.map((screen) => (
              <li key={screen.id}>
                <Link
                  to={screen.path}
                  aria-current={isCurrent(screen) ? "page" : undefined}
                  onClick={() => {
                    setOpen(false);
                    toScreen();
                  }}
                  className={cx(
                    "flex min-h-11 items-center gap-3 rounded-control px-2 hover:bg-panel-2",
                    isCurrent(screen) && "bg-panel-2 font-semibold",
                  )}
                >
                  <screen.icon size={18} />
                  {screen.label}
                </Link>
              </li>
            ))}
          </ul>
        </Dialog>
      )}
    </nav>
  );
}

/** The screen that one is on is behind the console, while that is open. */
const toScreen = () => setUi({ isConsoleOpen: false });

const ITEM =
  "flex min-h-13 min-w-0 flex-1 flex-col items-center justify-center gap-0.5 text-11 -outline-offset-2";

function PhoneLink({ screen, isCurrent }: { readonly screen: Screen; readonly isCurrent: boolean }) {
  return (
    <Link
      to={screen.path}
      aria-current={isCurrent ? "page" : undefined}
      onClick={toScreen}
      className={cx(ITEM, isCurrent ? "text-ink shadow-[inset_0_2px_0_var(--accent)]" : "text-ink-2")}
    >
      <screen.icon size={18} />
      {/* There is no room for a canvas: lists are shown in its place. */}
      {screen.id === "canvas" ? "Overview" : screen.label}
    </Link>
  );
}
