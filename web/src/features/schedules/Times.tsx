import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";
import type { Mistakes, ScheduleDraft } from "./draft";

interface TimesProps {
  readonly draft: ScheduleDraft;
  readonly mistakes: Mistakes;
  readonly onChange: (fields: Partial<ScheduleDraft>) => void;
}

/** A cron line with its time zone, or an interval. */
export function Times({ draft, mistakes, onChange }: TimesProps) {
  return (
    <>
      <Select
        label="When"
        value={draft.by}
        options={[
          { value: "cron", label: "At fixed times" },
          { value: "every", label: "At an interval" },
        ]}
        onChange={(by) => onChange({ by })}
      />
      {draft.by === "every" ? (
        <TextField
          label="Every"
          placeholder="30m"
          hint="Such as 30m, 2h, 1d or 1h30m, counted from when it is saved."
          value={draft.every}
          error={mistakes.get("when")}
          onChange={(event) => onChange({ every: event.target.value })}
        />
      ) : (
        <>
          <TextField
            label="Cron line"
            placeholder="0 3 * * *"
            hint="Minute hour day month weekday: 0 3 * * * is every night at three, 30 8 * * 1 is Mondays at 8:30."
            value={draft.cron}
            error={mistakes.get("when")}
            onChange={(event) => onChange({ cron: event.target.value })}
          />
          <TextField
            label="Time zone"
            placeholder="UTC"
            value={draft.timezone}
            error={mistakes.get("timezone")}
            onChange={(event) => onChange({ timezone: event.target.value })}
          />
        </>
      )}
    </>
  );
}
