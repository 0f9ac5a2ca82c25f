import { type ReactNode, useId } from "react";

interface SectionProps {
  readonly title: string;
  readonly note?: string;
  readonly children: ReactNode;
}

export function Section({ title, note, children }: SectionProps) {
  const id = useId();
  return (
    <section
      aria-labelledby={id}
      className="flex flex-col gap-3 rounded-card border border-line bg-panel p-4"
    >
      <h2 id={id} className="text-15">
        {title} {note !== undefined && <span className="ml-2 text-12 font-normal text-ink-3">{note}</span>}
      </h2>
      {children}
    </section>
  );
}

/** Names and values below each other. */
export function Facts({ children }: { readonly children: ReactNode }) {
  return <dl className="grid grid-cols-[9rem_minmax(0,1fr)] gap-x-3 gap-y-1.5">{children}</dl>;
}

export function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <>
      <dt className="text-ink-2">{name}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </>
  );
}
