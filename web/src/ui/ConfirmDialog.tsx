import type { ReactNode } from "react";
import { Button } from "./Button";
import { Dialog } from "./Dialog";

interface ConfirmDialogProps {
  readonly title: string;
  /** What will happen, and whether it can be undone. */
  readonly children: ReactNode;
  /** The verb. */
  readonly label: string;
  readonly busy?: boolean;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}

/** Asks before something that is hard to undo; Escape and Cancel change nothing. */
export function ConfirmDialog({ title, children, label, busy, onConfirm, onClose }: ConfirmDialogProps) {
  return (
    <Dialog
      title={title}
      width="narrow"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose} data-autofocus>
            Cancel
          </Button>
          <Button variant="danger" busy={busy ?? false} onClick={onConfirm}>
            {label}
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-2">{children}</div>
    </Dialog>
  );
}
