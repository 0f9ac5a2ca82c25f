import type { ScreenProps } from "@/shell/screens";
import { useUi } from "@/state/ui";
import { cx } from "@/ui/cx";
import { EmptyState } from "@/ui/EmptyState";
import { MemoryIcon } from "@/ui/icons/icons";
import { AgentList } from "./AgentList";
import { AgentMemory } from "./AgentMemory";

/** What agents remember, and what people change of it. */
export default function MemoryScreen({ id }: ScreenProps) {
  const isPast = useUi((state) => state.travel !== null);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <h1 className="sr-only">Memory</h1>
      {isPast && (
        <p className="border-b border-line px-4 py-1.5 text-12 text-warn">
          Memory is shown as it is now: it does not travel in time. “Changes” tells how it came to be.
        </p>
      )}
      <div className="flex min-h-0 flex-1">
        <div
          className={cx(
            "w-full shrink-0 overflow-auto border-line scroll-thin tablet:w-65 tablet:border-r",
            id !== null && "max-tablet:hidden",
          )}
        >
          <p aria-hidden="true" className="px-4 pt-3 pb-2 text-15 font-semibold">
            Memory
          </p>
          <AgentList current={id} />
        </div>
        <div className={cx("min-w-0 flex-1", id === null && "max-tablet:hidden")}>
          {id === null ? (
            <EmptyState title="Choose an agent" icon={<MemoryIcon size={28} />}>
              Its core memory, its entries and every change of them are shown here.
            </EmptyState>
          ) : (
            <AgentMemory key={id} agent={id} />
          )}
        </div>
      </div>
    </div>
  );
}
