import type { AnchorHTMLAttributes } from "react";
import { navigate } from "./route";

interface LinkProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
  readonly to: string;
}

/** A link within the page; with Ctrl, Cmd or the middle button it opens a new tab as links do. */
export function Link({ to, onClick, ...rest }: LinkProps) {
  return (
    // eslint-disable-next-line jsx-a11y/anchor-has-content -- it comes with the other properties
    <a
      {...rest}
      href={to}
      onClick={(event) => {
        onClick?.(event);
        if (
          event.defaultPrevented ||
          event.button !== 0 ||
          event.metaKey ||
          event.ctrlKey ||
          event.shiftKey ||
          event.altKey
        )
          return;
        event.preventDefault();
        navigate(to);
      }}
    />
  );
}
