import type { ButtonHTMLAttributes, ReactNode, Ref } from "react";
import { cx } from "./cx";

/** There is no `disabled`: what cannot be pressed stays reachable and says why (`shell/ActionButton`). */
export interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "disabled"> {
  readonly variant?: "plain" | "primary" | "danger" | "quiet";
  readonly size?: "small" | "normal";
  readonly icon?: ReactNode;
  /** At work: it cannot be pressed again, and says so. */
  readonly busy?: boolean;
  readonly className?: string | undefined;
  readonly ref?: Ref<HTMLButtonElement>;
}

const VARIANT = {
  plain: "border-line bg-panel-2 text-ink hover:border-edge",
  primary: "border-transparent bg-accent text-accent-ink hover:opacity-90",
  danger: "border-line bg-panel-2 text-bad hover:border-bad",
  quiet: "border-transparent bg-transparent text-ink-2 hover:bg-panel-2 hover:text-ink",
} as const;

export function Button({
  variant = "plain",
  size = "normal",
  icon,
  busy = false,
  className,
  children,
  ...rest
}: ButtonProps) {
  return (
    <button
      type="button"
      data-action=""
      {...rest}
      disabled={busy}
      aria-busy={busy || undefined}
      className={cx(
        "inline-flex shrink-0 items-center justify-center gap-1.5 rounded-control border font-medium whitespace-nowrap",
        "disabled:opacity-50",
        size === "small" ? "h-6.5 px-2 text-12" : "h-8 px-3 text-13",
        VARIANT[variant],
        className,
      )}
    >
      {icon}
      {children}
    </button>
  );
}
