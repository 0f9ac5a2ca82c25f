import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef } from "react";
import { createPortal } from "react-dom";
import { IconButton } from "./IconButton";
import { cx } from "./cx";
import { CloseIcon } from "./icons/icons";

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
  /** Buttons, the main one last. */
  readonly footer?: ReactNode;
  readonly width?: "narrow" | "normal" | "wide";
  /** Hides the row of the title (it stays the name of the dialog). */
  readonly bare?: boolean;
}

const WIDTH = { narrow: "max-w-100", normal: "max-w-150", wide: "max-w-240" } as const;
function stopsIn(panel: HTMLElement): readonly HTMLElement[] {
  return [...panel.querySelectorAll<HTMLElement>("*")].filter(
    (one) => one.tabIndex >= 0 && !one.matches(":disabled"),
  );
}

let open = 0;

/** What lies below cannot be reached while a dialog is open. */
function useInertGround() {
  useEffect(() => {
    const ground = document.getElementById("root");
    open += 1;
    if (ground) ground.inert = true;
    return () => {
      open -= 1;
      if (ground && open === 0) ground.inert = false;
    };
  }, []);
}

/** A modal dialog: focus enters, stays and returns; Escape closes. */
export function Dialog({ title, onClose, children, footer, width = "normal", bare = false }: DialogProps) {
  const id = useId();
  const panel = useRef<HTMLDivElement>(null);
  const before = useRef(document.activeElement);
  useInertGround();

  useEffect(() => {
    const returnTo = before.current;
    const wanted = panel.current?.querySelector<HTMLElement>("[data-autofocus]") ?? panel.current;
    if (!panel.current?.contains(document.activeElement)) wanted?.focus();
    return () => {
      if (returnTo instanceof HTMLElement) queueMicrotask(() => returnTo.focus());
    };
  }, []);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape" && !event.defaultPrevented) {
      event.stopPropagation();
      onClose();
    }
    if (event.key !== "Tab" || panel.current === null) return;
    const stops = stopsIn(panel.current);
    const edge = event.shiftKey ? stops[0] : stops.at(-1);
    const atEdge = document.activeElement === edge || document.activeElement === panel.current;
    if (!atEdge || (document.activeElement === panel.current && !event.shiftKey && stops.length > 0)) return;
    event.preventDefault();
    (event.shiftKey ? stops.at(-1) : stops[0])?.focus();
  };

  return createPortal(
    <div
      className="fixed inset-0 z-40 grid grid-cols-[minmax(0,1fr)] place-items-start justify-items-center overflow-auto bg-veil p-4 pt-[12vh]"
      onPointerDown={(event) => event.target === event.currentTarget && onClose()}
    >
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- Escape and Tab of all within */}
      <div
        ref={panel}
        role="dialog"
        aria-modal="true"
        aria-labelledby={`${id}-title`}
        tabIndex={-1}
        onKeyDown={onKeyDown}
        className={cx(
          "flex max-h-[76vh] w-full flex-col rounded-card border border-line bg-panel text-ink outline-none",
          WIDTH[width],
        )}
      >
        <div
          className={
            bare
              ? "sr-only"
              : "flex items-center justify-between gap-4 border-b border-line py-2.5 pr-2.5 pl-4"
          }
        >
          <h2 id={`${id}-title`} className="min-w-0 text-15 wrap-anywhere">
            {title}
          </h2>
          {!bare && <IconButton label="Close" icon={<CloseIcon />} onClick={onClose} />}
        </div>
        {/* Positioned: what is hidden from eyes in it would else lie below the window, and the veil would scroll. */}
        <div className={cx("relative min-h-0 overflow-auto scroll-thin", !bare && "p-4")}>{children}</div>
        {footer !== undefined && (
          <div className="flex justify-end gap-2 border-t border-line px-4 py-3">{footer}</div>
        )}
      </div>
    </div>,
    document.body,
  );
}
