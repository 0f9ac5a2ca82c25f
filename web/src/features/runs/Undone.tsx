import type { Shape } from "@/client/types";
import { counted } from "@/projection/counted";
import { Link } from "@/shell/Link";
import { href } from "@/shell/route";
import { Button } from "@/ui/Button";

interface UndoneProps {
  readonly of: Shape<"Compensated">;
  /** Opens what settles an unknown outcome of this run; null if another run must be settled. */
  readonly onSettle: (() => void) | null;
}

/** What was undone, what stays, and for what the undoing waits. */
export function Undone({ of, onSettle }: UndoneProps) {
  const { undone, not_undone: stays, status } = of;
  if (status !== "done") return <Held of={of} onSettle={onSettle} />;
  return (
    <>
      <p className="font-medium">
        {undone.length > 0
          ? `${counted(undone.length, "call")} undone.`
          : stays.length > 0
            ? "Nothing was undone."
            : "There was nothing to undo."}
      </p>
      <Steps label="Undone" steps={undone} />
      {stays.length > 0 && (
        <p>
          These stay: no tool of this server says how they are undone, or nobody knows what became of them.
        </p>
      )}
      <Steps label="Not undone" steps={stays} />
    </>
  );
}

function Steps({ label, steps }: { readonly label: string; readonly steps: readonly string[] }) {
  if (steps.length === 0) return null;
  return (
    <ul aria-label={label} className="num max-h-40 overflow-auto pl-4 text-ink-2 scroll-thin" tabIndex={0}>
      {steps.map((step) => (
        <li key={step}>{step}</li>
      ))}
    </ul>
  );
}

function Held({ of, onSettle }: UndoneProps) {
  const isUnknown = of.status === "unknown_outcome";
  return (
    <>
      <p className="font-medium">
        {isUnknown
          ? "Nobody knows whether a call was undone. Settle it, then go on."
          : "A person must allow an undoing first: it stands in the approvals. Then go on."}
      </p>
      <p className="num text-ink-2">
        {of.step} of{" "}
        <Link to={href("runs", of.held_by)} className="text-accent underline">
          {of.held_by}
        </Link>
      </p>
      {isUnknown && onSettle !== null && (
        <Button size="small" className="self-start" onClick={onSettle}>
          Settle outcome
        </Button>
      )}
    </>
  );
}
