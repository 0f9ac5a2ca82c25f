import { idOf } from "@/projection/event";
import type { SelectionKind } from "@/state/ui";
import { select } from "@/state/ui";
import { cx } from "@/ui/cx";
import { openArtifact } from "../state";

interface RefButtonProps {
  readonly kind: SelectionKind;
  /** An id, or of an artifact a ref such as `churn/table@2`. */
  readonly to: string;
  /** Instead of the ref itself. */
  readonly label?: string;
  readonly className?: string;
}

/** Opens a thing in the inspector. */
export function RefButton({ kind, to, label, className }: RefButtonProps) {
  return (
    <button
      type="button"
      title={to}
      onClick={() => (kind === "artifact" ? openArtifact(to) : select(kind, idOf(to)))}
      className={cx(
        "max-w-full min-w-0 text-left break-words underline decoration-edge underline-offset-2 hover:decoration-current",
        label === undefined && "num break-all",
        className,
      )}
    >
      {label ?? to}
    </button>
  );
}
