import type { NodeProps } from "@xyflow/react";
import { memo } from "react";
import { cx } from "@/ui/cx";
import type { ClusterNodeType } from "./types";

function counted(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

/** Many things as one, with letters that stay readable from afar. */
export const ClusterNode = memo(function ClusterNode({ data, selected }: NodeProps<ClusterNodeType>) {
  const colour = !data.isMembrane
    ? "var(--edge)"
    : data.tone === "membrane"
      ? "var(--membrane)"
      : "var(--membrane-2)";
  const parts = [
    data.agents > 0 ? counted(data.agents, "agent") : "",
    data.tasks > 0 ? counted(data.tasks, "task") : "",
    data.artifacts > 0 ? counted(data.artifacts, "artifact") : "",
  ];
  return (
    <div
      className={cx(
        "cluster grid size-full content-center justify-items-center overflow-hidden border-2 bg-panel p-2 text-center",
        selected === true && "border-accent",
      )}
      style={{ borderColor: selected === true ? undefined : colour }}
    >
      <p
        className="max-w-full truncate font-semibold"
        style={{ color: data.isMembrane ? colour : undefined }}
      >
        {data.title}
      </p>
      <p className="text-ink-2">{parts.filter(Boolean).join(", ")}</p>
      {data.working > 0 && <p className="text-agent">{data.working} running</p>}
      {data.waiting > 0 && <p className="text-warn">{data.waiting} waiting for a person</p>}
    </div>
  );
});
