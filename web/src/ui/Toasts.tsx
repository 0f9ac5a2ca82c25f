import { type RefObject, useEffect, useLayoutEffect, useRef } from "react";
import { createPortal } from "react-dom";
import { Button } from "./Button";
import { cx } from "./cx";
import { CheckIcon, CloseIcon, WarnIcon } from "./icons/icons";
import { IconButton } from "./IconButton";

export interface ToastNote {
  readonly id: number;
  readonly tone: "info" | "good" | "bad";
  readonly title: string;
  readonly advice: string;
  readonly action?: { readonly label: string; readonly run: () => void } | undefined;
}

const SHOWN_MS = 6000;
/** Long enough to read it, reach it and do it. */
const SHOWN_WITH_ACTION_MS = 20_000;
const FRAME = { info: "border-line", good: "border-money", bad: "border-bad" } as const;

/** Says in `--notes` how high they are: a phone has no corner to spare, so what they would cover moves up. */
function useRoom(element: RefObject<HTMLElement | null>) {
  useLayoutEffect(() => {
    const target = element.current;
    if (target === null) return;
    const { style } = document.documentElement;
    const observer = new ResizeObserver(() => style.setProperty("--notes", `${target.offsetHeight}px`));
    observer.observe(target);
    return () => {
      observer.disconnect();
      style.removeProperty("--notes");
    };
  }, [element]);
}

/** News that nobody asked for. Errors stay until they are closed; screen readers hear all of them. */
export function Toasts({
  notes,
  onClose,
}: {
  readonly notes: readonly ToastNote[];
  readonly onClose: (id: number) => void;
}) {
  const section = useRef<HTMLElement>(null);
  useRoom(section);
  return createPortal(
    <section
      ref={section}
      aria-label="Notifications"
      className="fixed z-50 flex flex-col max-tablet:inset-x-0 max-tablet:bottom-[calc(var(--spacing)*13+1px)] max-tablet:max-h-[40vh] max-tablet:overflow-y-auto tablet:right-4 tablet:bottom-4 tablet:w-78"
    >
      <div
        aria-live="polite"
        className={cx("flex flex-col gap-2", notes.length > 0 && "max-tablet:px-2 max-tablet:py-1.5")}
      >
        {notes.map((note) => (
          <ToastCard key={note.id} note={note} onClose={onClose} />
        ))}
      </div>
    </section>,
    document.body,
  );
}

function ToastCard({ note, onClose }: { readonly note: ToastNote; readonly onClose: (id: number) => void }) {
  useEffect(() => {
    if (note.tone === "bad") return;
    const shownMs = note.action === undefined ? SHOWN_MS : SHOWN_WITH_ACTION_MS;
    const timer = setTimeout(() => onClose(note.id), shownMs);
    return () => clearTimeout(timer);
  }, [note, onClose]);
  return (
    <div className={cx("flex items-start gap-2 rounded-card border bg-panel p-3 text-ink", FRAME[note.tone])}>
      {note.tone === "bad" && (
        <span className="mt-0.5 text-bad">
          <WarnIcon />
        </span>
      )}
      {note.tone === "good" && (
        <span className="mt-0.5 text-money">
          <CheckIcon />
        </span>
      )}
      <div className="min-w-0 flex-1">
        <p className="break-words">
          {note.tone === "bad" && <span className="sr-only">Error: </span>}
          {note.title}
        </p>
        {note.advice !== "" && <p className="text-12 break-words text-ink-2">{note.advice}</p>}
      </div>
      {note.action !== undefined && (
        <Button
          size="small"
          onClick={() => {
            onClose(note.id);
            note.action?.run();
          }}
        >
          {note.action.label}
        </Button>
      )}
      <IconButton
        label="Dismiss"
        size="small"
        icon={<CloseIcon size={12} />}
        onClick={() => onClose(note.id)}
      />
    </div>
  );
}
