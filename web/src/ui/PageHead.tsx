import type { ReactNode } from "react";

interface PageHeadProps {
  readonly title: string;
  /** One line below: what is shown. */
  readonly note?: ReactNode;
  /** Actions at the right. */
  readonly children?: ReactNode;
}

/** The top of a page of lists: its heading and its actions. */
export function PageHead({ title, note, children }: PageHeadProps) {
  return (
    <div className="flex shrink-0 flex-wrap items-center gap-x-4 gap-y-2 px-4 pt-3 pb-2">
      <div className="min-w-0 flex-1">
        <h1 className="text-15">{title}</h1>
        {note !== undefined && <p className="text-12 text-ink-2">{note}</p>}
      </div>
      {children !== undefined && <div className="flex flex-wrap items-center gap-2">{children}</div>}
    </div>
  );
}
