import { useId } from "react";
import { cx } from "./cx";

export interface Option<V extends string> {
  readonly value: V;
  readonly label: string;
  readonly disabled?: boolean;
}

interface SelectProps<V extends string> {
  readonly label: string;
  readonly bare?: boolean;
  readonly value: V;
  readonly options: readonly Option<V>[];
  readonly onChange: (value: V) => void;
  readonly hint?: string;
  readonly disabled?: boolean;
  readonly className?: string;
}

/** The browser's own list of choices, which every keyboard and screen reader knows. */
export function Select<V extends string>({
  label,
  bare = false,
  value,
  options,
  onChange,
  hint,
  disabled,
  className,
}: SelectProps<V>) {
  const id = useId();
  return (
    <div className={cx("flex flex-col gap-1", className)}>
      <label htmlFor={id} className={bare ? "sr-only" : "text-12 text-ink-2"}>
        {label}
      </label>
      <select
        id={id}
        value={value}
        disabled={disabled}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onChange={(event) => {
          const chosen = options.find((option) => option.value === event.target.value);
          if (chosen !== undefined) onChange(chosen.value);
        }}
        className="h-8 rounded-control border border-edge bg-paper px-2 text-13 text-ink disabled:opacity-60"
      >
        {options.map((option) => (
          <option key={option.value} value={option.value} disabled={option.disabled}>
            {option.label}
          </option>
        ))}
      </select>
      {hint !== undefined && (
        <p id={`${id}-hint`} className="text-11 text-ink-3">
          {hint}
        </p>
      )}
    </div>
  );
}
