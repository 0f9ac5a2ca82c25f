import { Slider } from "@/ui/Slider";
import { useLimit } from "./useLimit";

interface LimitProps {
  readonly label: string;
  readonly value: number;
  readonly min: number;
  readonly max: number;
  readonly words: (value: number) => string;
  readonly used?: number | undefined;
  readonly usedText?: string;
  /** Such as that a membrane allows less. */
  readonly note?: string | undefined;
  readonly disabled: boolean;
  readonly onSave: (value: number) => void;
}

/** A hard limit: moved freely, saved when it is let go, if it is another one. */
export function Limit({ label, value, min, max, words, used, usedText, note, disabled, onSave }: LimitProps) {
  const { shown, move, rest } = useLimit(value, onSave);
  return (
    <div>
      <Slider
        label={label}
        value={shown}
        min={min}
        max={max}
        valueText={words(shown)}
        {...(used === undefined ? {} : { used })}
        {...(usedText === undefined ? {} : { usedText })}
        disabled={disabled}
        onChange={move}
        onCommit={rest}
      />
      {note !== undefined && <p className="text-11 text-warn">{note}</p>}
    </div>
  );
}
