import { useEffect } from "react";
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

/** News that nobody asked for. Errors stay until they are closed; screen readers hear all of them. */
export function Toasts({
  notes,
  onClose,
}: {
  readonly notes: readonly ToastNote[];
  readonly onClose: (id: number) => void;
}) {
  return createPortal(
    <section
      aria-label="Notifications"
      className="fixed right-4 bottom-4 z-50 flex w-78 max-tablet:top-16 max-tablet:bottom-auto max-w-[calc(100vw-32px)] flex-col gap-2"
    >
      <div aria-live="polite" className="flex flex-col gap-2">
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
