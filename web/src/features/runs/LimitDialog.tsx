import { useState } from "react";
import { unless } from "@/commands/command";
import type { Run } from "@/projection/graph";
import { ActionButton } from "@/shell/ActionButton";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";
import { useVerb } from "./useVerb";

const UNITS = [
  { value: "usd", label: "Dollars" },
  { value: "tokens", label: "Tokens" },
  { value: "steps", label: "Steps" },
  { value: "wall_s", label: "Seconds" },
] as const;
type Unit = (typeof UNITS)[number]["value"];

function capOf(unit: Unit, text: string): string | number | null | undefined {
  if (text.trim() === "") return null;
  if (unit === "usd") return /^\d+(\.\d{1,6})?$/.test(text.trim()) ? text.trim() : undefined;
  const cap = Number(text);
  return Number.isSafeInteger(cap) && cap >= 0 ? cap : undefined;
}

/** The most that a run and all that it starts may use. */
export function LimitDialog({ run, onClose }: { readonly run: Run; readonly onClose: () => void }) {
  const [unit, setUnit] = useState<Unit>("usd");
  const [text, setText] = useState("");
  const action = useVerb(run.id);
  const may = useMayAct();
  const cap = capOf(unit, text);
  return (
    <Dialog
      title={`Set a limit: ${run.id}`}
      width="narrow"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <ActionButton
            label={cap === null ? "Lift the limit" : "Set the limit"}
            variant="primary"
            busy={action.isPending}
            may={unless(may, cap === undefined && "Write an amount first.")}
            onClick={() => action.mutate({ verb: "limit", body: { unit, cap } }, { onSuccess: onClose })}
          />
        </>
      }
    >
      <p className="mb-3 text-ink-2">
        Holds at once, for the run and its children, also for what they have used so far. A run that is out of
        budget goes on once it is resumed.
      </p>
      <div className="flex gap-2">
        <Select label="Of what" value={unit} options={UNITS} onChange={setUnit} />
        <TextField
          label="At most (empty: no limit)"
          className="flex-1"
          inputMode="decimal"
          placeholder={unit === "usd" ? "0.60" : "10000"}
          value={text}
          error={
            cap === undefined
              ? `Expected ${unit === "usd" ? "dollars such as 0.60" : "a whole number"}.`
              : undefined
          }
          onChange={(event) => setText(event.target.value)}
        />
      </div>
    </Dialog>
  );
}
