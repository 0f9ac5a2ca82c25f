import type { ButtonHTMLAttributes, ReactNode, Ref } from "react";
import { cx } from "./cx";

/** There is no `disabled`: what cannot be pressed stays reachable and says why (`shell/ActionButton`). */
export interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "disabled"> {
  readonly variant?: "plain" | "primary" | "danger" | "quiet";
  readonly size?: "small" | "normal";
  readonly icon?: ReactNode;
  /** A long label takes several lines where there is no room for one. */
  readonly wraps?: boolean;
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
  wraps = false,
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
        "inline-flex items-center justify-center gap-1.5 rounded-control border font-medium",
        "disabled:opacity-50",
        size === "small" ? "px-2 text-12" : "px-3 text-13",
        wraps ? "min-h-8 min-w-0 py-1 text-left wrap-anywhere" : "shrink-0 whitespace-nowrap",
        !wraps && (size === "small" ? "h-6.5" : "h-8"),
        VARIANT[variant],
        className,
      )}
    >
      {icon}
      {children}
    </button>
  );
}
