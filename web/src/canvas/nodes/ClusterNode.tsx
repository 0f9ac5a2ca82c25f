import type { NodeProps } from "@xyflow/react";
import { memo } from "react";
import { counted } from "@/projection/counted";
import { cx } from "@/ui/cx";
import type { ClusterNodeType } from "./types";

/** Many things as one, with letters that stay readable from afar. */
export const ClusterNode = memo(function ClusterNode({ data, selected }: NodeProps<ClusterNodeType>) {
  const colour = !data.isMembrane
    ? "var(--edge)"
    : data.tone === "membrane"
      ? "var(--membrane)"
      : "var(--membrane-2)";
  return (
    <div
      className={cx("cluster size-full overflow-hidden bg-panel text-center")}
      style={{ borderColor: selected === true ? "var(--accent)" : colour }}
    >
      <div className="cluster-words">
        <p
          className="max-w-full truncate font-semibold"
          style={{ color: data.isMembrane ? colour : undefined }}
        >
          {data.title}
        </p>
        {data.agents > 0 && <p className="text-ink-2">{counted(data.agents, "agent")}</p>}
        {data.tasks > 0 && (
          <p className="text-ink-2">
            {data.done} of {counted(data.tasks, "task")} done
          </p>
        )}
        {data.notDone > 0 && <p className="text-bad">{data.notDone} failed or blocked</p>}
        {data.artifacts > 0 && <p className="text-ink-2">{counted(data.artifacts, "artifact")}</p>}
        {data.working > 0 && <p className="text-agent">{data.working} running</p>}
        {data.waiting > 0 && <p className="text-warn">{data.waiting} waiting</p>}
      </div>
    </div>
  );
});
