import type { ButtonHTMLAttributes, ReactNode } from "react";
import { cx } from "./cx";
import { Tooltip, type TooltipSide } from "./Tooltip";

interface IconButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "aria-label" | "disabled"> {
  /** What it does: its name for screen readers and its tooltip. */
  readonly label: string;
  readonly icon: ReactNode;
  readonly shortcut?: string | undefined;
  readonly pressed?: boolean;
  readonly side?: TooltipSide;
  readonly size?: "small" | "normal";
}

export function IconButton({
  label,
  icon,
  shortcut,
  pressed,
  side = "bottom",
  size = "normal",
  className,
  ...rest
}: IconButtonProps) {
  return (
    <Tooltip text={label} shortcut={shortcut} side={side}>
      <button
        data-action=""
        type="button"
        {...rest}
        aria-label={label}
        aria-pressed={pressed}
        className={cx(
          "grid shrink-0 place-items-center rounded-control text-ink-2 hover:bg-panel-2 hover:text-ink disabled:opacity-50",
          size === "small" ? "size-6" : "size-8",
          pressed === true && "bg-panel-2 text-ink",
          className,
        )}
      >
        {icon}
      </button>
    </Tooltip>
  );
}
