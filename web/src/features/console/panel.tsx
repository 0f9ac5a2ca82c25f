import { setUi, useUi } from "@/state/ui";
import { Tabs } from "@/ui/Tabs";
import { ContextTab } from "./ContextTab";
import { DecisionsTab } from "./DecisionsTab";
import { LedgerTab } from "./LedgerTab";
import { LiveAside } from "./LiveAside";
import { LiveTab } from "./LiveTab";
import { TABS, type TabId } from "./tabs";
import { TimelineTab } from "./TimelineTab";

const CONTENT: Readonly<Record<TabId, () => React.ReactNode>> = {
  live: LiveTab,
  context: ContextTab,
  decisions: DecisionsTab,
  ledger: LedgerTab,
  timeline: TimelineTab,
};

/** The drawer: what happens, what was seen, what was decided, what it cost, and when. */
export default function Console() {
  const chosen = useUi((state) => state.consoleTab);
  const current = TABS.find((tab) => tab.id === chosen) ?? TABS[0];
  return (
    <Tabs
      label="Console"
      className="h-full"
      selected={current.id}
      onSelect={(consoleTab) => setUi({ consoleTab })}
      aside={current.id === "live" ? <LiveAside /> : undefined}
      tabs={TABS.map(({ id, label }) => {
        const Content = CONTENT[id];
        return { id, label, content: id === current.id ? <Content /> : null };
      })}
    />
  );
}
