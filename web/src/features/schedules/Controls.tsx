import { useState } from "react";
import { api, path } from "@/client/http";
import { queryClient } from "@/client/queries";
import { ActionButton } from "@/shell/ActionButton";
import { href, navigate } from "@/shell/route";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import type { Shape } from "@/client/types";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { ScheduleForm } from "./ScheduleForm";
import { KEY, type ScheduleDetail } from "./words";

/** A program's own loop is changed in the program. */
const CHANGED_HERE: readonly string[] = ["mission", "agent"];

/** Pause or resume a schedule, fire it now, change it, or let it be gone. */
export function Controls({ schedule }: { readonly schedule: ScheduleDetail }) {
  const { busy, attempt } = useAttempt();
  const may = useMayAct();
  const [asking, setAsking] = useState<"change" | "remove" | null>(null);
  const close = () => setAsking(null);
  const where = (verb: string) => path("schedules", schedule.id, verb);
  const isPaused = schedule.status === "paused";
  const refresh = () => void queryClient.invalidateQueries({ queryKey: KEY });

  const turn = async () => {
    await attempt(
      () => api.post<ScheduleDetail>(where(isPaused ? "resume" : "pause"), {}),
      isPaused ? `${schedule.id} goes on from now.` : `${schedule.id} is paused.`,
    );
    refresh();
  };
  const fire = async () => {
    await attempt(
      () => api.post<Shape<"Fired">>(where("fire"), {}),
      (fired) => ({
        title: fired.queued
          ? `${schedule.id} fires when its earlier run has ended.`
          : `${schedule.id} has fired.`,
        advice: fired.run_id ?? "",
      }),
    );
    refresh();
  };
  const remove = async () => {
    const isGone = await attempt(
      () => api.del<Shape<"Removed">>(path("schedules", schedule.id)),
      `${schedule.id} is gone.`,
    );
    if (!isGone) return;
    navigate(href("schedules"), { replace: true });
    void queryClient.invalidateQueries({ queryKey: [...KEY, "list"] });
  };
  return (
    <div className="flex flex-wrap gap-2">
      <ActionButton
        label={isPaused ? "Resume" : "Pause"}
        may={may}
        busy={busy}
        hint={isPaused ? "What passed meanwhile is not made up for." : "Runs that are at work go on."}
        onClick={() => void turn()}
      />
      <ActionButton
        label="Fire now"
        variant="primary"
        may={may}
        busy={busy}
        hint="Starts a run now, outside of its times."
        onClick={() => void fire()}
      />
      {CHANGED_HERE.includes(schedule.loop) && (
        <ActionButton label="Change" may={may} onClick={() => setAsking("change")} />
      )}
      <ActionButton label="Remove" variant="danger" may={may} onClick={() => setAsking("remove")} />
      {asking === "change" && <ScheduleForm schedule={schedule} onClose={close} />}
      {asking === "remove" && (
        <ConfirmDialog
          title={`Remove ${schedule.id}`}
          label="Remove the schedule"
          busy={busy}
          onConfirm={() => void remove()}
          onClose={close}
        >
          <p>It starts nothing any more. Its runs stay, and those at work go on.</p>
        </ConfirmDialog>
      )}
    </div>
  );
}
