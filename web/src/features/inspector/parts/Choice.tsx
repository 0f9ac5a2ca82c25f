import { useState } from "react";
import type { Enabled } from "@/commands/command";
import { ActionButton } from "@/shell/ActionButton";
import { type Option, Select } from "@/ui/Select";

interface ChoiceProps {
  readonly label: string;
  /** What may be chosen; nothing is shown without any. */
  readonly options: readonly Option<string>[];
  readonly verb: string;
  readonly busy: boolean;
  readonly may: Enabled;
  readonly onChoose: (value: string) => void;
}

/** One of several, and the button that does it. */
export function Choice({ label, options, verb, busy, may, onChoose }: ChoiceProps) {
  const [chosen, setChosen] = useState("");
  const target = options.find((one) => one.value === chosen) ?? options[0];
  if (target === undefined) return null;
  return (
    <div className="flex items-end gap-2">
      <Select
        label={label}
        value={target.value}
        options={options}
        onChange={setChosen}
        className="min-w-0 flex-1"
      />
      <ActionButton label={verb} busy={busy} may={may} onClick={() => onChoose(target.value)} />
    </div>
  );
}
