import type { ReactNode } from "react";
import { cx } from "@/ui/cx";

interface VitalProps {
  readonly label: string;
  readonly title?: string;
  readonly tone?: string | undefined;
  readonly className?: string;
  readonly children: ReactNode;
}

/** One number that one should always see. */
export function Vital({ label, title, tone, className, children }: VitalProps) {
  return (
    <div
      title={title}
      className={cx(
        "flex flex-col justify-center border-l border-line px-3 leading-tight max-tablet:px-2 max-tablet:first:border-l-0 max-tablet:first:pl-0",
        className,
      )}
    >
      <dt className="text-11 whitespace-nowrap text-ink-3">{label}</dt>
      <dd className={cx("num whitespace-nowrap", tone)}>{children}</dd>
    </div>
  );
}
