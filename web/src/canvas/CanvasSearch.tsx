import { type KeyboardEvent, type Ref, useId, useMemo, useState } from "react";
import { search } from "@/commands/search";
import type { Graph } from "@/projection/graph";
import { shortName } from "@/projection/event";
import { cx } from "@/ui/cx";
import { SearchIcon } from "@/ui/icons/icons";
import type { Scene } from "./scene";

interface CanvasSearchProps {
  readonly graph: Graph;
  readonly scene: Scene;
  readonly onShow: (node: string) => void;
  readonly field: Ref<HTMLInputElement>;
}

const FOUND_MAX = 8;
const ALWAYS = { ok: true } as const;

function candidates(graph: Graph, scene: Scene) {
  const things = scene.things.map(({ node, kind, id }) => {
    const name =
      kind === "agent"
        ? graph.agents.get(id)?.name
        : kind === "artifact"
          ? graph.artifacts.get(id)?.title
          : shortName(id);
    return { node, kind: kind as string, name: name ?? shortName(id), id };
  });
  const membranes = scene.membranes.map(({ id }) => {
    const name = graph.membranes.get(id)?.name ?? shortName(id);
    return { node: `room:${id}`, kind: "membrane", name, id };
  });
  return [...things, ...membranes].map((one) => ({ ...one, text: `${one.name} ${one.id}`, enabled: ALWAYS }));
}

/** Finds what is on the canvas, also where it is not mounted, and goes there. */
export function CanvasSearch({ graph, scene, onShow, field }: CanvasSearchProps) {
  const id = useId();
  const [query, setQuery] = useState("");
  const [index, setIndex] = useState(0);
  const isOpen = query.trim() !== "";
  const found = useMemo(
    () => (isOpen ? search(query, candidates(graph, scene), FOUND_MAX) : []),
    [isOpen, query, graph, scene],
  );
  const current = found[Math.min(index, found.length - 1)];

  const go = (node: string) => {
    onShow(node);
    setQuery("");
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setIndex((before) => Math.max(0, Math.min(found.length - 1, before + step)));
    } else if (event.key === "Enter" && current !== undefined) {
      go(current.node);
    } else if (event.key === "Escape") {
      setQuery("");
    }
  };

  return (
    <div className="relative w-60">
      <div className="flex h-8 items-center gap-2 rounded-control border border-edge bg-panel px-2 text-ink-2 focus-within:outline-2 focus-within:outline-accent">
        <SearchIcon size={14} />
        <input
          ref={field}
          type="text"
          role="combobox"
          aria-label="Find on the canvas"
          aria-expanded={isOpen}
          aria-controls={`${id}-list`}
          aria-activedescendant={current === undefined ? undefined : `${id}-${current.node}`}
          aria-autocomplete="list"
          placeholder="Find on the canvas"
          value={query}
          onChange={(event) => {
            setQuery(event.target.value);
            setIndex(0);
          }}
          onKeyDown={onKeyDown}
          className="min-w-0 flex-1 bg-transparent text-ink outline-none"
        />
      </div>
      <ul
        id={`${id}-list`}
        role="listbox"
        aria-label="Found"
        className={cx(
          "absolute top-full mt-1 max-h-80 w-80 overflow-auto rounded-card border border-line bg-panel p-1",
          !isOpen && "hidden",
        )}
      >
        {found.map((one) => (
          <li
            key={one.node}
            id={`${id}-${one.node}`}
            role="option"
            aria-selected={one === current}
            onPointerDown={(event) => {
              event.preventDefault();
              go(one.node);
            }}
            className={cx("cursor-pointer rounded-control px-2 py-1", one === current && "bg-panel-2")}
          >
            <span className="block truncate">{one.name}</span>
            <span className="block truncate text-11 text-ink-2">
              {one.kind} · {one.id}
            </span>
          </li>
        ))}
        {isOpen && found.length === 0 && (
          <li role="option" aria-selected="false" aria-disabled="true" className="px-2 py-1 text-ink-2">
            Nothing on the canvas is called that.
          </li>
        )}
      </ul>
    </div>
  );
}
