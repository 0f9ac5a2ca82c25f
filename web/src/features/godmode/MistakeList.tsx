import { useEffect, useRef } from "react";
import { counted } from "@/projection/counted";
import type { Draft, Mistakes } from "./draft";

interface MistakeListProps {
  readonly draft: Draft;
  readonly mistakes: Mistakes;
  /** How often a launch was refused: each time this takes the focus, so that nobody searches for what is wrong. */
  readonly refusals: number;
}

/** What is wrong with a plan, at its top, with the way to each field. */
export function MistakeList({ draft, mistakes, refusals }: MistakeListProps) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (refusals > 0) box.current?.focus();
  }, [refusals]);
  if (mistakes.size === 0) return null;
  const general = mistakes.get("");
  const fields = [...mistakes].filter(([path]) => path !== "");
  return (
    <div
      ref={box}
      role="alert"
      tabIndex={-1}
      className="flex flex-col gap-1 rounded-control border border-bad p-2"
    >
      {general !== undefined && <p className="text-bad">{general}</p>}
      {fields.length > 0 && (
        <>
          <p className="font-semibold text-bad">Not launched: {counted(fields.length, "field")} to change.</p>
          <ul className="flex flex-col">
            {fields.map(([path, text]) => (
              <li key={path}>
                <button
                  type="button"
                  className="min-h-6 text-left underline hover:text-bad"
                  onClick={() => focusField(box.current, path)}
                >
                  {placeOf(draft, path)}: {text}
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

/** `agents.0.budget_usd` is `analyst, budget usd`. */
function placeOf(draft: Draft, path: string): string {
  const [part = "", index, field] = path.split(".");
  const entries = { agents: draft.agents, tasks: draft.tasks, membranes: draft.membranes }[part] ?? [];
  const entry = index === undefined ? undefined : entries[Number(index)];
  return [entry?.slug ?? part, field?.replaceAll("_", " ")].filter(Boolean).join(", ");
}

const CONTROLS = "input, select, textarea, button";

/** The field of a path, else what it is a part of. */
export function focusField(from: HTMLElement | null, path: string): void {
  const places = [...(from?.closest("[role=dialog]")?.querySelectorAll<HTMLElement>("[data-field]") ?? [])];
  for (let at = path; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf(".")))) {
    const place = places.find((one) => one.dataset["field"] === at);
    const control = place?.matches(CONTROLS) === true ? place : place?.querySelector<HTMLElement>(CONTROLS);
    if (control != null) return control.focus();
  }
}
