import { href, navigate, useRoute } from "@/shell/route";
import type { ScreenProps } from "@/shell/screens";
import { cx } from "@/ui/cx";
import { EmptyState } from "@/ui/EmptyState";
import { ToolIcon } from "@/ui/icons/icons";
import { Select } from "@/ui/Select";
import { SkillList } from "./SkillList";
import { SkillView } from "./SkillView";
import type { Status } from "./words";

const STATUSES: readonly { readonly value: Status | ""; readonly label: string }[] = [
  { value: "", label: "Every status" },
  { value: "parked", label: "Waiting for your look" },
  { value: "active", label: "Can be used" },
  { value: "refused", label: "Refused" },
];

/** What agents can load, and what waits for a person's look. */
export default function SkillsScreen({ id }: ScreenProps) {
  const { query } = useRoute();
  const status = STATUSES.find((one) => one.value === query["status"])?.value ?? "";
  return (
    <div className="flex h-full min-h-0">
      <h1 className="sr-only">Skills</h1>
      <div
        className={cx(
          "flex w-full shrink-0 flex-col border-line tablet:w-75 tablet:border-r",
          id !== null && "max-tablet:hidden",
        )}
      >
        <div className="flex items-center gap-2 px-4 pt-3 pb-2">
          <p aria-hidden="true" className="flex-1 text-15 font-semibold">
            Skills
          </p>
          <Select
            bare
            label="Status"
            value={status}
            options={STATUSES}
            onChange={(chosen) =>
              navigate(href("skills", id, chosen === "" ? {} : { status: chosen }), { replace: true })
            }
          />
        </div>
        <div className="min-h-0 flex-1 overflow-auto scroll-thin">
          <SkillList status={status} current={id} />
        </div>
      </div>
      <div className={cx("min-w-0 flex-1", id === null && "max-tablet:hidden")}>
        {id === null ? (
          <EmptyState title="Choose a skill" icon={<ToolIcon size={28} />}>
            Its definition, what changed of it and the decision about it are shown here.
          </EmptyState>
        ) : (
          <SkillView key={id} id={id} />
        )}
      </div>
    </div>
  );
}
