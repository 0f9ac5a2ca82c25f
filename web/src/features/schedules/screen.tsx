import type { ScreenProps } from "@/shell/screens";
import { CommandButton } from "@/shell/CommandButton";
import { href, navigate, useRoute } from "@/shell/route";
import { cx } from "@/ui/cx";
import { EmptyState } from "@/ui/EmptyState";
import { HistoryIcon, PlusIcon } from "@/ui/icons/icons";
import { ScheduleForm } from "./ScheduleForm";
import { ScheduleList } from "./ScheduleList";
import { ScheduleView } from "./ScheduleView";

/** What is started again and again, when next, and how it went. */
export default function SchedulesScreen({ id }: ScreenProps) {
  const { query } = useRoute();
  return (
    <div className="flex h-full min-h-0">
      <h1 className="sr-only">Schedules</h1>
      <div
        className={cx(
          "flex w-full shrink-0 flex-col border-line tablet:w-75 tablet:border-r",
          id !== null && "max-tablet:hidden",
        )}
      >
        <div className="flex items-center justify-between gap-2 py-2 pr-3 pl-4">
          <p aria-hidden="true" className="text-15 font-semibold">
            Schedules
          </p>
          <CommandButton id="schedule.new" label="New" icon={<PlusIcon size={12} />} />
        </div>
        <div className="min-h-0 flex-1 overflow-auto scroll-thin">
          <ScheduleList current={id} />
        </div>
      </div>
      <div className={cx("min-w-0 flex-1", id === null && "max-tablet:hidden")}>
        {id === null ? (
          <EmptyState title="No schedule is open" icon={<HistoryIcon size={28} />}>
            What it starts, when next, and how its runs went are shown here.
          </EmptyState>
        ) : (
          <ScheduleView key={id} id={id} />
        )}
      </div>
      {query["do"] === "new" && (
        <ScheduleForm schedule={null} onClose={() => navigate(href("schedules", id), { replace: true })} />
      )}
    </div>
  );
}
