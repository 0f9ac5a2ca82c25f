import type { ReactNode } from "react";
import { Button, type ButtonProps } from "@/ui/Button";
import { Tooltip } from "@/ui/Tooltip";
import { useCommand } from "./useCommand";

interface CommandButtonProps {
  readonly id: string;
  readonly icon?: ReactNode;
  readonly variant?: ButtonProps["variant"];
  /** Instead of the command's own label, where the place makes clear what is meant. */
  readonly label?: string;
}

/** A button that runs a command. When it cannot, it says why, and stays reachable by keyboard to say it. */
export function CommandButton({ id, icon, variant = "plain", label }: CommandButtonProps) {
  const { command, enabled, run } = useCommand(id);
  const hint = enabled.ok ? command.label : enabled.why;
  return (
    <Tooltip text={hint} shortcut={command.shortcut}>
      <Button
        variant={variant}
        icon={icon}
        aria-disabled={!enabled.ok || undefined}
        aria-description={enabled.ok ? undefined : enabled.why}
        className={enabled.ok ? undefined : "opacity-55"}
        onClick={() => enabled.ok && run()}
      >
        {label ?? command.label}
      </Button>
    </Tooltip>
  );
}
