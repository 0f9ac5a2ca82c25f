import { cx } from "./cx";
import { FILL_TONE, type Tone } from "./tone";

interface MeterProps {
  readonly label: string;
  readonly value: number;
  readonly max: number;
  /** In words: "7,412 of 128,000 tokens". */
  readonly valueText: string;
  readonly tone?: Tone;
  /** From which share on it is a warning. */
  readonly warnFrom?: number;
  readonly className?: string;
}

/** How full something is. */
export function Meter({
  label,
  value,
  max,
  valueText,
  tone = "accent",
  warnFrom = 0.85,
  className,
}: MeterProps) {
  const share = max <= 0 ? 0 : Math.min(1, Math.max(0, value / max));
  const shown = share >= 1 ? "bad" : share >= warnFrom ? "warn" : tone;
  return (
    <div
      role="meter"
      aria-label={label}
      aria-valuenow={Math.min(value, max)}
      aria-valuemin={0}
      aria-valuemax={max}
      aria-valuetext={valueText}
      title={`${label}: ${valueText}`}
      className={cx("h-1.5 min-w-12 overflow-hidden rounded-full bg-line", className)}
    >
      <div className={cx("h-full rounded-full", FILL_TONE[shown])} style={{ width: `${share * 100}%` }} />
    </div>
  );
}
