import { type ReactNode, useId } from "react";
import { Badge } from "@/ui/Badge";

interface SectionProps<T> {
  readonly title: string;
  readonly items: readonly T[];
  readonly max: number;
  readonly empty: string;
  readonly row: (item: T) => ReactNode;
}

/** A titled list; says how many it does not show. */
export function Section<T>({ title, items, max, empty, row }: SectionProps<T>) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="rounded-card border border-line bg-panel">
      <h2 id={id} className="flex items-center gap-2 border-b border-line px-4 py-2 text-13">
        {title}
        <Badge count={items.length} label="items" />
      </h2>
      {items.length === 0 ? (
        <p className="px-4 py-3 text-ink-2">{empty}</p>
      ) : (
        <ul className="divide-y divide-line">{items.slice(0, max).map(row)}</ul>
      )}
      {items.length > max && (
        <p className="border-t border-line px-4 py-2 text-12 text-ink-2">
          {items.length - max} more are not shown; search finds them.
        </p>
      )}
    </section>
  );
}
