import { type FormEvent, useState } from "react";
import { api, inWords, path } from "@/client/http";
import { queryClient } from "@/client/queries";
import { ActionButton } from "@/shell/ActionButton";
import { href, navigate } from "@/shell/route";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";
import { bodyOf, draftOf, type Mistakes, mistakesOf, refusedOf, type ScheduleDraft } from "./draft";
import { Times } from "./Times";
import { KEY, OVERLAPS, type ScheduleDetail } from "./words";

const NONE: Mistakes = new Map();

interface ScheduleFormProps {
  /** The one that is changed; null makes a new one. */
  readonly schedule: ScheduleDetail | null;
  readonly onClose: () => void;
}

/** What is started, when, and what becomes of a time that meets an earlier run. */
export function ScheduleForm({ schedule, onClose }: ScheduleFormProps) {
  const [draft, setDraft] = useState<ScheduleDraft>(() => draftOf(schedule));
  const [mistakes, setMistakes] = useState(NONE);
  const [busy, setBusy] = useState(false);
  const may = useMayAct();
  const change = (fields: Partial<ScheduleDraft>) => {
    setDraft({ ...draft, ...fields });
    setMistakes(NONE);
  };

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const wrong = mistakesOf(draft);
    setMistakes(wrong);
    if (wrong.size > 0 || !may.ok || busy) return;
    setBusy(true);
    try {
      const body = bodyOf(draft, schedule);
      const made = await (schedule === null
        ? api.post<ScheduleDetail>("/schedules", body)
        : api.patch<ScheduleDetail>(path("schedules", schedule.id), body));
      await queryClient.invalidateQueries({ queryKey: KEY });
      onClose();
      navigate(href("schedules", made.id), { replace: true });
    } catch (error) {
      const { title, advice } = inWords(error);
      setMistakes(refusedOf(error, `${title}. ${advice}`.trim()));
    } finally {
      setBusy(false);
    }
  };

  return (
    <Dialog
      title={schedule === null ? "New schedule" : `Change ${schedule.id}`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <ActionButton
            type="submit"
            form="schedule"
            label={schedule === null ? "Make it" : "Save"}
            variant="primary"
            may={may}
            busy={busy}
          />
        </>
      }
    >
      <form
        id="schedule"
        noValidate
        className="grid gap-3 tablet:grid-cols-2"
        onSubmit={(event) => void submit(event)}
      >
        {mistakes.has("") && (
          <p role="alert" className="text-bad tablet:col-span-2">
            {mistakes.get("")}
          </p>
        )}
        {schedule === null && (
          <>
            <TextField
              label="Name"
              data-autofocus
              placeholder="nightly"
              value={draft.id}
              error={mistakes.get("id")}
              onChange={(event) => change({ id: event.target.value })}
            />
            <Select
              label="Who works on it"
              value={draft.solo}
              options={[
                { value: "plan", label: "Agents by a plan" },
                { value: "solo", label: "One agent, without a plan" },
              ]}
              onChange={(solo) => change({ solo })}
            />
          </>
        )}
        <TextField
          label="Goal"
          rows={3}
          className="tablet:col-span-2"
          placeholder="Which region sold most yesterday? Write a report."
          value={draft.goal}
          error={mistakes.get("goal")}
          onChange={(event) => change({ goal: event.target.value })}
        />
        <Times draft={draft} mistakes={mistakes} onChange={change} />
        <Select
          label="While an earlier run has not ended"
          value={draft.overlap}
          options={OVERLAPS}
          onChange={(overlap) => change({ overlap })}
        />
        <TextField
          label="Budget of each run in USD"
          inputMode="decimal"
          placeholder="no limit"
          value={draft.budget}
          error={mistakes.get("budget")}
          onChange={(event) => change({ budget: event.target.value })}
        />
        <TextField
          label="Failures in a row that pause it"
          inputMode="numeric"
          placeholder="none: it goes on"
          value={draft.failures}
          error={mistakes.get("failures")}
          onChange={(event) => change({ failures: event.target.value })}
        />
      </form>
    </Dialog>
  );
}
