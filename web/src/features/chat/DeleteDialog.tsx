import { useAttempt } from "@/shell/useAttempt";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { type Place, remove } from "./api";

interface DeleteDialogProps {
  readonly place: Place;
  readonly turn: number;
  /** One reply alone; null for the whole turn. */
  readonly variant: number | null;
  readonly onClose: () => void;
}

/** Deleting a turn, or one reply: what goes, what stays, and which records still have the words. */
export function DeleteDialog({ place, turn, variant, onClose }: DeleteDialogProps) {
  const { busy, attempt } = useAttempt();
  const what = variant === null ? `turn ${turn}` : `reply ${variant} of turn ${turn}`;
  const go = async () => {
    const ok = await attempt(
      () => remove(place, turn, variant ?? undefined),
      ({ derived_runs: runs }) => ({
        title: `Deleted: ${what}.`,
        advice:
          runs.length === 0
            ? "No run has recorded its words."
            : `Still recorded in ${runs.slice(0, 3).join(", ")}${runs.length > 3 ? ` and ${runs.length - 3} more` : ""}.`,
      }),
    );
    if (ok) onClose();
  };
  return (
    <ConfirmDialog
      title={`Delete ${what}?`}
      label="Delete"
      busy={busy}
      onConfirm={() => void go()}
      onClose={onClose}
    >
      <p>
        {variant === null
          ? "All its replies go with it. The turns after it stay."
          : "The nearest other reply takes its place."}{" "}
        This cannot be undone. Runs that were shown the words keep them in their records, which are named
        then.
      </p>
    </ConfirmDialog>
  );
}
