import type { ReactNode } from "react";

interface EmptyStateProps {
  readonly title: string;
  /** One sentence that teaches the next action. */
  readonly children: ReactNode;
  readonly icon?: ReactNode;
  readonly action?: ReactNode;
}

export function EmptyState({ title, children, icon, action }: EmptyStateProps) {
  return (
    <div className="grid h-full place-items-center p-6">
      <div className="flex max-w-100 flex-col items-center gap-2 text-center">
        {icon !== undefined && <span className="text-ink-3">{icon}</span>}
        <p className="text-15 font-semibold">{title}</p>
        <p className="text-ink-2">{children}</p>
        {action !== undefined && <div className="mt-2">{action}</div>}
      </div>
    </div>
  );
}
