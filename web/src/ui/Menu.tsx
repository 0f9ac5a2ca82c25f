import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { cx } from "./cx";
import { Kbd } from "./Kbd";

export interface MenuItem {
  readonly id: string;
  readonly label: string;
  readonly icon?: ReactNode;
  readonly shortcut?: string | undefined;
  readonly disabled?: boolean;
  /** Why it is disabled. */
  readonly why?: string | undefined;
  readonly danger?: boolean;
  readonly run: () => void;
}

interface MenuProps {
  readonly label: string;
  readonly icon?: ReactNode;
  /** Shown on the button; without it the label is for screen readers alone. */
  readonly text?: ReactNode;
  readonly items: readonly MenuItem[];
  readonly align?: "left" | "right";
}

/** A button that opens a list of actions; arrows, Home, End, Escape and first letters work. */
export function Menu({ label, icon, text, items, align = "left" }: MenuProps) {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (!isOpen) return;
    list.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const onPointer = (event: PointerEvent) => {
      const inside =
        event.target instanceof Node &&
        (list.current?.contains(event.target) || button.current?.contains(event.target));
      if (!inside) setOpen(false);
    };
    document.addEventListener("pointerdown", onPointer);
    return () => document.removeEventListener("pointerdown", onPointer);
  }, [isOpen]);

  const close = () => {
    setOpen(false);
    button.current?.focus();
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const stops = [...(list.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const index = stops.indexOf(document.activeElement as HTMLElement);
    const move = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: -1 }[event.key];
    const letter = event.key.length === 1 ? event.key.toLowerCase() : "";
    if (event.key === "Escape") {
      event.preventDefault();
      close();
    } else if (event.key === "Tab") {
      setOpen(false);
    } else if (move !== undefined) {
      event.preventDefault();
      stops.at(move % stops.length)?.focus();
    } else if (letter !== "" && letter !== " ") {
      const later = [...stops.slice(index + 1), ...stops];
      later.find((stop) => stop.textContent.trim().toLowerCase().startsWith(letter))?.focus();
    }
  };

  return (
    <span className="relative inline-block">
      <button
        ref={button}
        type="button"
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        aria-label={text === undefined ? label : undefined}
        onClick={() => setOpen(!isOpen)}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown" && !isOpen) {
            event.preventDefault();
            setOpen(true);
          }
        }}
        className="flex h-8 min-w-8 items-center justify-center gap-1.5 rounded-control px-2 text-ink-2 hover:bg-panel-2 hover:text-ink"
      >
        {icon}
        {text}
      </button>
      {isOpen && (
        // eslint-disable-next-line jsx-a11y/interactive-supports-focus -- its items have the focus
        <div
          ref={list}
          id={id}
          role="menu"
          aria-label={label}
          onKeyDown={onKeyDown}
          className={cx(
            "absolute top-full z-30 mt-1 max-h-80 min-w-45 overflow-auto rounded-card border border-line bg-panel p-1",
            align === "right" ? "right-0" : "left-0",
          )}
        >
          {items.map((item) => (
            <button
              key={item.id}
              type="button"
              role="menuitem"
              tabIndex={-1}
              aria-disabled={item.disabled === true || undefined}
              onClick={() => {
                if (item.disabled === true) return;
                close();
                item.run();
              }}
              className={cx(
                "flex w-full items-center gap-2 rounded-control px-2 py-1.5 text-left hover:bg-panel-2 focus:bg-panel-2",
                item.danger === true && "text-bad",
                item.disabled === true && "text-ink-3",
              )}
            >
              {item.icon}
              <span className="flex-1">
                {item.label}
                {item.why !== undefined && item.disabled === true && (
                  <span className="block text-11 text-ink-3">{item.why}</span>
                )}
              </span>
              {item.shortcut !== undefined && <Kbd keys={item.shortcut} />}
            </button>
          ))}
        </div>
      )}
    </span>
  );
}
