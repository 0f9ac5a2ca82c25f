import { useState } from "react";
import { Button } from "@/ui/Button";
import { cx } from "@/ui/cx";
import { dayAndTime } from "@/ui/time";
import type { Found } from "./filter";

const PAGE = 50;

interface CardListProps {
  readonly found: readonly Found[];
  readonly selected: string | null;
  readonly onSelect: (id: string) => void;
}

/** The same as the table, for a phone. */
export function CardList({ found, selected, onSelect }: CardListProps) {
  const [shown, setShown] = useState(PAGE);
  return (
    <>
      <ul aria-label="Artifacts" className="divide-y divide-line border-t border-line">
        {found.slice(0, shown).map(({ artifact, isByName }) => (
          <li key={artifact.id}>
            <button
              type="button"
              aria-pressed={artifact.id === selected}
              onClick={() => onSelect(artifact.id)}
              className={cx(
                "flex min-h-12 w-full items-center gap-3 px-4 py-2 text-left -outline-offset-2",
                artifact.id === selected && "bg-panel-2",
              )}
            >
              <span className="min-w-0 flex-1">
                <span className="block truncate font-medium">{artifact.title}</span>
                <span className="block truncate text-12 text-ink-2">
                  {artifact.kind} · {artifact.owner}
                  {!isByName && " · found in its content"}
                </span>
              </span>
              <span className="num shrink-0 text-right text-ink-2">
                v{artifact.version}
                <br />
                {dayAndTime(artifact.changedUs)}
              </span>
            </button>
          </li>
        ))}
      </ul>
      {found.length > shown && (
        <div className="grid place-items-center p-3">
          <Button onClick={() => setShown(shown + PAGE)}>
            Show {Math.min(PAGE, found.length - shown)} more of {found.length - shown}
          </Button>
        </div>
      )}
    </>
  );
}
