import type { Edge, EdgeProps } from "@xyflow/react";
import { memo } from "react";
import type { EdgeKind } from "@/projection/graph";
import { cx } from "@/ui/cx";
import type { Box } from "../layout/box";
import { routeBetween } from "../layout/route";

export type FlowEdgeType = Edge<
  {
    readonly kind: EdgeKind | "many";
    readonly from: Box;
    readonly to: Box;
    readonly label: string;
    readonly isLive: boolean;
    /** Something at one of its ends is selected. */
    readonly isNear: boolean;
  },
  "flow"
>;

const COLOUR: Readonly<Record<EdgeKind | "many", string>> = {
  read: "var(--accent)",
  wrote: "var(--artifact)",
  invoked: "var(--membrane)",
  sold: "var(--money)",
  delegated: "var(--agent)",
  depends: "var(--ink-3)",
  many: "var(--accent)",
};

/** Grey, unless it carries something now; its word is there when something at an end of it is selected. */
export const FlowEdge = memo(function FlowEdge({ data }: EdgeProps<FlowEdgeType>) {
  if (data === undefined) return null;
  const { path, middle } = routeBetween(data.from, data.to);
  const colour = data.isLive ? COLOUR[data.kind] : data.isNear ? "var(--ink-2)" : "var(--edge)";
  return (
    <>
      <path
        d={path}
        fill="none"
        strokeWidth={data.isLive ? 1.8 : 1.3}
        markerEnd="url(#flow-arrow)"
        className={cx("flow-edge", data.isLive && "flow-live")}
        style={{ stroke: colour, color: colour }}
        strokeDasharray={data.isLive ? "6 5" : data.kind === "depends" ? "2 4" : undefined}
        data-live={data.isLive || undefined}
      />
      {(data.isNear || data.isLive) && (
        <text x={middle.x} y={middle.y - 5} textAnchor="middle" className="flow-word">
          {data.label}
        </text>
      )}
    </>
  );
});
