import { type ReactNode, useId } from "react";

interface PartProps {
  readonly title: string;
  readonly aside?: ReactNode;
  readonly children: ReactNode;
}

/** A titled part of the inspector. */
export function Part({ title, aside, children }: PartProps) {
  const id = useId();
  return (
    <section
      aria-labelledby={id}
      className="flex flex-col gap-2 border-b border-line px-4 py-3 last:border-b-0"
    >
      <div className="flex items-baseline justify-between gap-2">
        <h3 id={id} className="text-12 text-ink-2">
          {title}
        </h3>
        {aside !== undefined && <span className="num shrink-0 text-ink-2">{aside}</span>}
      </div>
      {children}
    </section>
  );
}
