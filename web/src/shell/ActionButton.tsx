import type { ReactNode } from "react";
import type { Enabled } from "@/commands/command";
import { Button, type ButtonProps } from "@/ui/Button";
import { IconButton } from "@/ui/IconButton";
import { Tooltip } from "@/ui/Tooltip";

type Passed = Pick<
  ButtonProps,
  "type" | "form" | "variant" | "size" | "icon" | "wraps" | "busy" | "onClick" | "aria-expanded"
>;

interface ActionButtonProps extends Passed {
  readonly label: string;
  /** Its whole name where several of the same label are near each other. */
  readonly name?: string;
  readonly may: Enabled;
  readonly icon?: ReactNode;
  /** Only the icon is seen; the label is its name. */
  readonly bare?: boolean;
  /** What will happen, in words. */
  readonly hint?: string;
}

/** A button with an effect of its own. When it cannot, it says why and stays reachable to say it. */
export function ActionButton({
  label,
  name,
  may,
  icon,
  bare = false,
  hint,
  busy = false,
  onClick,
  ...rest
}: ActionButtonProps) {
  const why = may.ok ? undefined : may.why;
  const shared = {
    ...rest,
    "aria-disabled": !may.ok || undefined,
    "aria-description": why,
    className: may.ok ? undefined : "opacity-55",
    onClick: (event: Parameters<NonNullable<typeof onClick>>[0]) => {
      if (may.ok && !busy) onClick?.(event);
      else event.preventDefault();
    },
  };
  if (bare) {
    const { variant: _variant, size: _size, wraps: _wraps, ...plain } = shared;
    return (
      <IconButton
        {...plain}
        label={why === undefined ? (name ?? label) : `${name ?? label}: ${why}`}
        icon={icon}
        size="small"
      />
    );
  }
  // Always within a tooltip: a button that came to stand elsewhere in the tree would lose the focus.
  return (
    <Tooltip text={why ?? hint ?? ""}>
      <Button {...shared} icon={icon} busy={busy} aria-label={name}>
        {label}
      </Button>
    </Tooltip>
  );
}
