import { cx } from "@/ui/cx";
import { Tooltip } from "@/ui/Tooltip";
import { Link } from "./Link";
import { useRoute } from "./route";
import { useShownScreen } from "./useShownScreen";
import { builtScreens, type Screen } from "./screens";

/** The way to every screen: on the left, on a phone at the bottom. */
export function Rail() {
  const route = useRoute();
  const shown = useShownScreen();
  const screens = builtScreens().filter((screen) => screen.inRail);
  const settings = screens.filter((screen) => screen.id === "settings");
  return (
    <nav
      aria-label="Screens"
      className={cx(
        "flex shrink-0 border-line bg-panel [grid-area:rail]",
        "max-tablet:justify-around max-tablet:overflow-x-auto max-tablet:border-t max-tablet:py-1",
        "tablet:w-13 tablet:flex-col tablet:items-center tablet:gap-1 tablet:overflow-y-auto tablet:border-r tablet:py-2.5",
      )}
    >
      <span
        aria-hidden="true"
        className="mb-2.5 hidden size-8 place-items-center rounded-control bg-accent text-15 font-bold text-accent-ink tablet:grid"
      >
        A
      </span>
      {screens
        .filter((screen) => screen.id !== "settings")
        .map((screen) => (
          <RailLink
            key={screen.id}
            screen={screen}
            isCurrent={screen.id === route.screen || screen.id === shown}
          />
        ))}
      <span className="hidden flex-1 tablet:block" />
      {settings.map((screen) => (
        <RailLink
          key={screen.id}
          screen={screen}
          isCurrent={screen.id === route.screen || screen.id === shown}
        />
      ))}
    </nav>
  );
}

function RailLink({ screen, isCurrent }: { readonly screen: Screen; readonly isCurrent: boolean }) {
  const Icon = screen.icon;
  return (
    <Tooltip text={screen.label} shortcut={screen.shortcut ?? undefined} side="right">
      <Link
        to={screen.path}
        aria-label={screen.label}
        aria-current={isCurrent ? "page" : undefined}
        className={cx(
          "grid size-9 shrink-0 place-items-center rounded-control max-tablet:size-11",
          isCurrent
            ? "bg-panel-2 text-ink shadow-[inset_2px_0_0_var(--accent)]"
            : "text-ink-3 hover:bg-panel-2 hover:text-ink",
        )}
      >
        <Icon size={18} />
      </Link>
    </Tooltip>
  );
}
