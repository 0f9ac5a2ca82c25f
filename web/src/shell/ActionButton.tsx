import type { ReactNode } from "react";
import { Button, type ButtonProps } from "@/ui/Button";
import { IconButton } from "@/ui/IconButton";
import { Tooltip } from "@/ui/Tooltip";
import type { Enabled } from "@/commands/command";

interface ActionButtonProps {
  readonly label: string;
  readonly may: Enabled;
  readonly onClick: () => void;
  readonly icon?: ReactNode;
  /** Only the icon is seen; the label is its name. */
  readonly bare?: boolean;
  /** What will happen, in words. */
  readonly hint?: string;
  readonly variant?: ButtonProps["variant"];
  readonly size?: ButtonProps["size"];
  readonly busy?: boolean;
}

/** A button with an effect of its own. When it cannot, it says why and stays reachable to say it. */
export function ActionButton({
  label,
  may,
  onClick,
  icon,
  bare = false,
  hint,
  variant = "plain",
  size = "normal",
  busy = false,
}: ActionButtonProps) {
  const why = may.ok ? undefined : may.why;
  const shared = {
    "aria-disabled": !may.ok || undefined,
    "aria-description": why,
    className: may.ok ? undefined : "opacity-55",
    onClick: () => {
      if (may.ok && !busy) onClick();
    },
  };
  if (bare) {
    return (
      <IconButton
        label={why === undefined ? label : `${label}: ${why}`}
        icon={icon}
        size="small"
        {...shared}
      />
    );
  }
  const button = (
    <Button variant={variant} size={size} icon={icon} busy={busy} {...shared}>
      {label}
    </Button>
  );
  const text = why ?? hint;
  return text === undefined ? button : <Tooltip text={text}>{button}</Tooltip>;
}
