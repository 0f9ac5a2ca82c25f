import { type KeyboardEvent, useId, useMemo, useState } from "react";
import { counted } from "@/projection/counted";
import { useGraph } from "@/state/log";
import { setUi, useUi } from "@/state/ui";
import { cx } from "@/ui/cx";
import { Dialog } from "@/ui/Dialog";
import { Kbd } from "@/ui/Kbd";
import { useRoute } from "@/shell/route";
import { type PaletteEntry, paletteEntries } from "./paletteEntries";
import { search } from "./search";

/** All commands and all things, found by a few letters. */
export function Palette() {
  const [query, setQuery] = useState("");
  const [index, setIndex] = useState(0);
  const id = useId();
  const ui = useUi();
  const graph = useGraph();
  const route = useRoute();
  const entries = useMemo(() => paletteEntries({ ui, graph, route }), [ui, graph, route]);
  const found = useMemo(() => search(query, entries), [query, entries]);
  const current = found[Math.min(index, found.length - 1)];
  const close = () => setUi({ isPaletteOpen: false });

  const pick = (entry: PaletteEntry | undefined) => {
    if (entry === undefined || !entry.enabled.ok) return;
    close();
    // The dialog gives the focus back as it goes; what is run may want it elsewhere.
    setTimeout(entry.run);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const last = found.length - 1;
    const next = {
      ArrowDown: Math.min(index + 1, last),
      ArrowUp: Math.max(index - 1, 0),
      PageDown: Math.min(index + 8, last),
      PageUp: Math.max(index - 8, 0),
    }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      setIndex(next);
      document.getElementById(`${id}-${next}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      pick(current);
    }
  };

  return (
    <Dialog title="Search and run commands" bare onClose={close}>
      <input
        role="combobox"
        aria-label="Search and run commands"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={current === undefined ? undefined : `${id}-${found.indexOf(current)}`}
        data-autofocus
        data-palette
        autoComplete="off"
        spellCheck={false}
        placeholder="An action, an agent, an artifact …"
        value={query}
        onChange={(event) => {
          setQuery(event.target.value);
          setIndex(0);
        }}
        onKeyDown={onKeyDown}
        className="h-12 w-full border-b border-line bg-transparent px-4 text-15 outline-none"
      />
      <div role="listbox" id={`${id}-list`} aria-label="Results" className="p-1">
        {found.map((entry, at) => (
          // The field above keeps the focus and hears the keys; it names the option that is meant.
          // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus
          <div
            key={entry.id}
            id={`${id}-${at}`}
            role="option"
            aria-selected={entry === current}
            aria-disabled={!entry.enabled.ok || undefined}
            onPointerMove={() => at !== index && setIndex(at)}
            onClick={() => pick(entry)}
            className={cx(
              "flex cursor-pointer items-center gap-3 rounded-control px-3 py-1.5",
              entry === current && "bg-panel-2",
              !entry.enabled.ok && "text-ink-3",
            )}
          >
            <span className="min-w-0 flex-1 truncate">
              {entry.label}
              {!entry.enabled.ok && <span className="ml-2 text-11 text-ink-3">{entry.enabled.why}</span>}
            </span>
            <span className="text-11 text-ink-3">{entry.group}</span>
            {entry.shortcut !== undefined && <Kbd keys={entry.shortcut} />}
          </div>
        ))}
      </div>
      <p role="status" className={found.length === 0 ? "px-4 pb-4 text-ink-2" : "sr-only"}>
        {found.length === 0
          ? `Nothing is called “${query}”. Try fewer letters.`
          : counted(found.length, "result")}
      </p>
    </Dialog>
  );
}
