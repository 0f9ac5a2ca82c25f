import type { ReactNode } from "react";
import { Button } from "@/ui/Button";
import { PlusIcon } from "@/ui/icons/icons";

interface PartProps {
  /** Its place in the plan, by which mistakes lead to it. */
  readonly field: string;
  readonly title: string;
  readonly add: string;
  readonly onAdd: () => void;
  readonly error?: string | undefined;
  readonly note?: string | undefined;
  readonly children: ReactNode;
}

/** A part of a plan: its title, its entries, and a button for one more. */
export function Part({ field, title, add, onAdd, error, note, children }: PartProps) {
  return (
    <section data-field={field} aria-label={title} className="flex flex-col gap-2">
      <div className="flex items-center justify-between gap-3">
        <h3 className="text-13">{title}</h3>
        <Button size="small" variant="quiet" icon={<PlusIcon size={12} />} onClick={onAdd}>
          {add}
        </Button>
      </div>
      {note !== undefined && <p className="text-12 text-ink-2">{note}</p>}
      {error !== undefined && <p className="text-12 text-bad">{error}</p>}
      {children}
    </section>
  );
}

interface EntryProps {
  /** Its place in the plan, by which mistakes lead to it. */
  readonly field: string;
  readonly title: string;
  readonly remove: string;
  readonly onRemove: () => void;
  readonly error?: string | undefined;
  readonly children: ReactNode;
}

export function Entry({ field, title, remove, onRemove, error, children }: EntryProps) {
  return (
    <fieldset data-field={field} className="flex flex-col gap-2 rounded-card border border-line bg-paper p-3">
      <legend className="sr-only">{title}</legend>
      <div className="flex items-center justify-between gap-2">
        <span className="num text-ink-2">{title}</span>
        <Button size="small" variant="quiet" aria-label={remove} onClick={onRemove}>
          Remove
        </Button>
      </div>
      {children}
      {error !== undefined && <p className="text-12 text-bad">{error}</p>}
    </fieldset>
  );
}

interface ChoicesProps {
  /** Its place in the plan, by which mistakes lead to it. */
  readonly field: string;
  readonly label: string;
  readonly options: readonly { readonly value: string; readonly label: string }[];
  readonly chosen: readonly string[];
  readonly empty: string;
  readonly error?: string | undefined;
  readonly onChange: (chosen: readonly string[]) => void;
}

/** Any number of a few. */
export function Choices({ field, label, options, chosen, empty, error, onChange }: ChoicesProps) {
  return (
    <div
      data-field={field}
      role="group"
      aria-label={label}
      className="flex flex-wrap items-center gap-x-3 gap-y-1"
    >
      <span className="text-12 text-ink-2">{label}</span>
      {options.length === 0 && <span className="text-12 text-ink-3">{empty}</span>}
      {options.map((option) => (
        <label key={option.value} className="flex min-h-6 items-center gap-1.5">
          <input
            type="checkbox"
            className="accent-accent"
            checked={chosen.includes(option.value)}
            onChange={(event) =>
              onChange(
                event.target.checked
                  ? [...chosen, option.value]
                  : chosen.filter((value) => value !== option.value),
              )
            }
          />
          {option.label}
        </label>
      ))}
      {error !== undefined && <span className="text-12 text-bad">{error}</span>}
    </div>
  );
}
