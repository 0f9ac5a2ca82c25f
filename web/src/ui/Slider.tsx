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
  readonly disabled?: boolean;
  /** While it moves. */
  readonly onChange: (value: number) => void;
  /** When it comes to rest: the moment to tell the server. */
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
  disabled,
  onChange,
  onCommit,
}: SliderProps) {
  const id = useId();
  const share = (amount: number) =>
    `${(100 * (Math.min(max, Math.max(min, amount)) - min)) / Math.max(max - min, 1e-9)}%`;
  const commit = (target: EventTarget) => onCommit?.(Number((target as HTMLInputElement).value));
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
          id={id}
          type="range"
          className="range"
          min={min}
          max={max}
          step={step}
          value={value}
          disabled={disabled}
          aria-valuetext={used === undefined ? valueText : `${valueText}; used ${used}`}
          onChange={(event) => onChange(Number(event.target.value))}
          onPointerUp={(event) => commit(event.currentTarget)}
          onKeyUp={(event) => commit(event.currentTarget)}
        />
      </div>
    </div>
  );
}
