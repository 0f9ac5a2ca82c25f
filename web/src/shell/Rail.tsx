import { cx } from "@/ui/cx";
import { Tooltip } from "@/ui/Tooltip";
import { Link } from "./Link";
import { PhoneNav } from "./PhoneNav";
import { useRoute } from "./route";
import { useIsPhone } from "./useIsPhone";
import { useShownScreen } from "./useShownScreen";
import { builtScreens, type Screen } from "./screens";

/** The way to every screen: on the left, on a phone at the bottom. */
export function Rail() {
  const route = useRoute();
  const shown = useShownScreen();
  const isPhone = useIsPhone();
  const isCurrent = (screen: Screen) => screen.id === route.screen || screen.id === shown;
  return isPhone ? <PhoneNav isCurrent={isCurrent} /> : <SideRail isCurrent={isCurrent} />;
}

function SideRail({ isCurrent }: { readonly isCurrent: (screen: Screen) => boolean }) {
  const screens = builtScreens().filter((screen) => screen.inRail);
  const settings = screens.filter((screen) => screen.id === "settings");
  return (
    <nav
      aria-label="Screens"
      className={cx(
        "flex w-13 shrink-0 flex-col items-center gap-1 overflow-y-auto border-r border-line bg-panel py-2.5",
        "[grid-area:rail]",
      )}
    >
      <span
        aria-hidden="true"
        className="mb-2.5 grid size-8 shrink-0 place-items-center rounded-control bg-accent text-15 font-bold text-accent-ink"
      >
        A
      </span>
      {screens
        .filter((screen) => screen.id !== "settings")
        .map((screen) => (
          <RailLink key={screen.id} screen={screen} isCurrent={isCurrent(screen)} />
        ))}
      <span className="flex-1" />
      {settings.map((screen) => (
        <RailLink key={screen.id} screen={screen} isCurrent={isCurrent(screen)} />
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
          "grid size-9 shrink-0 place-items-center rounded-control",
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
