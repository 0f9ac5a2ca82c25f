import { useId } from "react";

interface SliderProps {
  readonly label: string;
  readonly value: number;
  readonly min: number;
  readonly max: number;
  readonly step?: number;
  /** The value in words, such as "$0.60, $0.397 left". */
  readonly valueText: string;
  /** How much of it is used already, in units of the value; marked on the track. */
  readonly used?: number;
  /** The same in words, where the unit is not that of the value: "$0.203 used". */
  readonly usedText?: string;
  readonly disabled?: boolean;
  /** While it moves. */
  readonly onChange: (value: number) => void;
  /** When it was let go, or stepped on by keyboard or a screen reader's commands. */
  readonly onCommit?: (value: number) => void;
}

export function Slider({
  label,
  value,
  min,
  max,
  step = 1,
  valueText,
  used,
  usedText = `used ${used}`,
  disabled,
  onChange,
  onCommit,
}: SliderProps) {
  const id = useId();
  const share = (amount: number) =>
    `${(100 * (Math.min(max, Math.max(min, amount)) - min)) / Math.max(max - min, 1e-9)}%`;
  // React's onChange is the browser's `input`; the browser's own `change` is the end of a movement, whoever
  // made it.
  const listen = (input: HTMLInputElement | null) => {
    if (input === null) return;
    const commit = () => onCommit?.(Number(input.value));
    input.addEventListener("change", commit);
    return () => input.removeEventListener("change", commit);
  };
  return (
    <div>
      <div className="flex justify-between gap-2 text-12 text-ink-2">
        <label htmlFor={id}>{label}</label>
        <output htmlFor={id} className="num text-ink">
          {valueText}
        </output>
      </div>
      <div className="relative">
        <div aria-hidden="true" className="absolute inset-x-0 top-2.5 h-1 rounded-full bg-line">
          <div className="absolute inset-y-0 left-0 rounded-full bg-accent" style={{ width: share(value) }} />
          {used !== undefined && used > min && (
            <div
              data-used={used}
              className="absolute -top-1 h-3 border-r-2 border-warn"
              style={{ width: share(used), maxWidth: "100%" }}
            />
          )}
        </div>
        <input
          ref={listen}
          id={id}
          type="range"
          className="range"
          min={min}
          max={max}
          step={step}
          value={value}
          disabled={disabled}
          aria-valuetext={used === undefined ? valueText : `${valueText}; ${usedText}`}
          onChange={(event) => onChange(Number(event.target.value))}
        />
      </div>
    </div>
  );
}
