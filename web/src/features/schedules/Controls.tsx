import { api, path } from "@/client/http";
import { queryClient } from "@/client/queries";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import type { Shape } from "@/client/types";
import { KEY, type ScheduleDetail } from "./words";

/** Pause or resume a schedule, or fire it now. */
export function Controls({ schedule }: { readonly schedule: ScheduleDetail }) {
  const { busy, attempt } = useAttempt();
  const may = useMayAct();
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
    </div>
  );
}
