import { type ReactNode, useId } from "react";
import { cx } from "./cx";

interface SwitchProps {
  readonly label: ReactNode;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
  /** What it means, or why it is off: "off: no network grant". */
  readonly why?: string;
  readonly disabled?: boolean;
}

export function Switch({ label, checked, onChange, why, disabled = false }: SwitchProps) {
  const id = useId();
  return (
    <div className="flex items-center justify-between gap-3 border-b border-line py-1.5">
      <span className="min-w-0">
        <span id={`${id}-label`}>{label}</span>
        {why !== undefined && (
          <span id={`${id}-why`} className="ml-1.5 text-11 text-ink-3">
            {why}
          </span>
        )}
      </span>
      <button
        type="button"
        role="switch"
        aria-checked={checked}
        aria-labelledby={`${id}-label`}
        aria-describedby={why === undefined ? undefined : `${id}-why`}
        disabled={disabled}
        onClick={() => onChange(!checked)}
        // 24 px high, as a target must be; the track within is what one sees.
        className="group grid h-6 w-7.5 shrink-0 place-items-center disabled:opacity-50"
      >
        <span
          className={cx(
            "relative h-4.25 w-7.5 rounded-full border",
            checked ? "border-accent bg-accent" : "border-edge bg-panel-2",
          )}
        >
          <span
            className={cx(
              "absolute top-px size-3.25 rounded-full transition-[left]",
              checked ? "left-3.5 bg-accent-ink" : "left-px bg-ink-2",
            )}
          />
        </span>
      </button>
    </div>
  );
}
