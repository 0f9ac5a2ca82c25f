import { type KeyboardEvent, type ReactNode, useId, useRef } from "react";
import { cx } from "./cx";

export interface Tab {
  readonly id: string;
  readonly label: string;
  readonly content: ReactNode;
  /** Such as a count. */
  readonly badge?: ReactNode;
}

interface TabsProps {
  /** What the tabs are about, for screen readers. */
  readonly label: string;
  readonly tabs: readonly Tab[];
  readonly selected: string;
  readonly onSelect: (id: string) => void;
  /** Stands at the end of the row of tabs. */
  readonly aside?: ReactNode;
  readonly className?: string;
}

/** Tabs with one stop for the Tab key; arrows, Home and End move among them. */
export function Tabs({ label, tabs, selected, onSelect, aside, className }: TabsProps) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const current = tabs.find((tab) => tab.id === selected) ?? tabs[0];
  if (current === undefined) return null;

  const onKeyDown = (event: KeyboardEvent) => {
    const index = tabs.indexOf(current);
    const next = {
      ArrowRight: (index + 1) % tabs.length,
      ArrowLeft: (index + tabs.length - 1) % tabs.length,
      Home: 0,
      End: tabs.length - 1,
    }[event.key];
    const tab = next === undefined ? undefined : tabs[next];
    if (next === undefined || tab === undefined) return;
    event.preventDefault();
    onSelect(tab.id);
    const button = list.current?.children[next];
    if (button instanceof HTMLElement) button.focus();
  };

  return (
    <div className={cx("flex min-h-0 flex-col", className)}>
      <div className="flex shrink-0 items-center gap-4 border-b border-line px-4">
        {/* eslint-disable-next-line jsx-a11y/interactive-supports-focus -- its tabs have the focus */}
        <div
          ref={list}
          role="tablist"
          aria-label={label}
          className="flex gap-4 overflow-x-auto"
          onKeyDown={onKeyDown}
        >
          {tabs.map((tab) => (
            <button
              key={tab.id}
              type="button"
              role="tab"
              id={`${id}-${tab.id}`}
              aria-selected={tab === current}
              aria-controls={`${id}-panel`}
              tabIndex={tab === current ? 0 : -1}
              className={cx(
                "flex items-center gap-1.5 border-b-2 py-2 whitespace-nowrap -outline-offset-2",
                tab === current
                  ? "border-accent font-semibold text-ink"
                  : "border-transparent text-ink-2 hover:text-ink",
              )}
              onClick={() => onSelect(tab.id)}
            >
              {tab.label}
              {tab.badge}
            </button>
          ))}
        </div>
        {aside !== undefined && (
          <div className="ml-auto flex items-center gap-2 text-12 text-ink-3">{aside}</div>
        )}
      </div>
      <div
        role="tabpanel"
        id={`${id}-panel`}
        aria-labelledby={`${id}-${current.id}`}
        tabIndex={0}
        className="min-h-0 flex-1 overflow-auto -outline-offset-2 scroll-thin"
      >
        {current.content}
      </div>
    </div>
  );
}
