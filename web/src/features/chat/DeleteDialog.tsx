import { useAttempt } from "@/shell/useAttempt";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { type Deletion, type Place, remove } from "./api";
import { openReply } from "./commands";

interface DeleteDialogProps {
  readonly place: Place;
  readonly turn: number;
  /** One reply alone; null for the whole turn. */
  readonly variant: number | null;
  readonly onClose: () => void;
}

/** Deleting a turn, or one reply: what goes, and what was made of the words and stays. */
export function DeleteDialog({ place, turn, variant, onClose }: DeleteDialogProps) {
  const { busy, attempt } = useAttempt();
  const what = variant === null ? `turn ${turn}` : `reply ${variant} of turn ${turn}`;
  const { attempt: open } = useAttempt();
  const go = async () => {
    const ok = await attempt(
      () => remove(place, turn, variant ?? undefined),
      (done) => {
        const unshown = done.unshown_runs.at(-1);
        return {
          title: `Deleted: ${what}.`,
          advice: describeDeletion(done),
          ...(unshown !== undefined && {
            action: { label: "Open it", run: () => void open(() => openReply(place, unshown)) },
          }),
        };
      },
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
        This cannot be undone. The words go from the database, and so do the records of runs that held them.
      </p>
    </ConfirmDialog>
  );
}

/** What went with the words, and what was made of them and stays. */
export function describeDeletion(done: Deletion): string {
  const gone = new Set([...done.erased_runs, ...done.unshown_runs]);
  const left = done.derived_runs.filter((run) => !gone.has(run));
  const told = [
    done.is_erased
      ? "The words are gone from the database."
      : "Said before messages had keys of their own: the words stay in the database.",
  ];
  if (done.erased_runs.length > 0) told.push(`Erased with them: ${listed(done.erased_runs)}.`);
  if (left.length > 0) told.push(`Made after them, and kept: ${listed(left)}.`);
  if (done.unshown_runs.length > 0) told.push(`Kept, but on no branch: ${listed(done.unshown_runs)}.`);
  if (done.derived_artifacts.length > 0)
    told.push(`Made of them, and kept: ${listed(done.derived_artifacts)}.`);
  return told.join(" ");
}

const listed = (names: readonly string[]): string =>
  names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${names.length - 3} more` : "");
