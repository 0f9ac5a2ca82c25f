import { Button, type ButtonProps } from "./Button";
import { cx } from "./cx";
import { Tooltip } from "./Tooltip";

interface ActionButtonProps extends ButtonProps {
  /** Why it cannot be pressed now; null if it can. It stays reachable by keyboard to say it. */
  readonly why: string | null;
}

export function ActionButton({ why, className, onClick, ...rest }: ActionButtonProps) {
  const button = (
    <Button
      {...rest}
      aria-disabled={why !== null || undefined}
      aria-description={why ?? undefined}
      className={cx(why !== null && "opacity-55", className)}
      onClick={(event) => why === null && onClick?.(event)}
    />
  );
  return why === null ? button : <Tooltip text={why}>{button}</Tooltip>;
}
