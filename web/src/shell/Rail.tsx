import { cx } from "@/ui/cx";
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
        "flex w-19 shrink-0 flex-col items-stretch gap-0.5 overflow-y-auto border-r border-line bg-panel px-1.5 py-2.5 scroll-thin desktop:w-33 desktop:px-2",
        "[grid-area:rail]",
      )}
    >
      <span aria-hidden="true" className="mb-2 flex items-center gap-2.5 self-center desktop:self-start">
        <span className="grid size-8 shrink-0 place-items-center rounded-control bg-accent text-15 font-bold text-accent-ink">
          A
        </span>
        <span className="hidden text-15 font-semibold desktop:inline">Artelier</span>
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
    <Link
      to={screen.path}
      aria-current={isCurrent ? "page" : undefined}
      aria-keyshortcuts={screen.shortcut ?? undefined}
      className={cx(
        "flex shrink-0 flex-col items-center gap-0.5 rounded-control py-1 text-11 -outline-offset-2 desktop:h-8 desktop:flex-row desktop:gap-2.5 desktop:px-2 desktop:text-13",
        isCurrent
          ? "bg-panel-2 font-medium text-ink shadow-[inset_2px_0_0_var(--accent)]"
          : "text-ink-2 hover:bg-panel-2 hover:text-ink",
      )}
    >
      <Icon size={16} />
      {screen.label}
    </Link>
  );
}
