import type { ScreenProps } from "@/shell/screens";
import { cx } from "@/ui/cx";
import { EmptyState } from "@/ui/EmptyState";
import { HistoryIcon } from "@/ui/icons/icons";
import { ScheduleList } from "./ScheduleList";
import { ScheduleView } from "./ScheduleView";

/** What is started again and again, when next, and how it went. */
export default function SchedulesScreen({ id }: ScreenProps) {
  return (
    <div className="flex h-full min-h-0">
      <h1 className="sr-only">Schedules</h1>
      <div
        className={cx(
          "flex w-full shrink-0 flex-col border-line tablet:w-75 tablet:border-r",
          id !== null && "max-tablet:hidden",
        )}
      >
        <p aria-hidden="true" className="px-4 pt-3 pb-2 text-15 font-semibold">
          Schedules
        </p>
        <div className="min-h-0 flex-1 overflow-auto scroll-thin">
          <ScheduleList current={id} />
        </div>
      </div>
      <div className={cx("min-w-0 flex-1", id === null && "max-tablet:hidden")}>
        {id === null ? (
          <EmptyState title="Choose a schedule" icon={<HistoryIcon size={28} />}>
            What it starts, when next, and how its runs went are shown here.
          </EmptyState>
        ) : (
          <ScheduleView key={id} id={id} />
        )}
      </div>
    </div>
  );
}
