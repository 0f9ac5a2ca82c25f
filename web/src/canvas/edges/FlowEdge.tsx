import { memo } from "react";
import type { EdgeKind } from "@/projection/graph";
import { cx } from "@/ui/cx";
import type { Box } from "../layout/box";
import { type Route, routeAside, routeBetween } from "../layout/route";

/** A line between two nodes: an edge of the graph, or several between two clusters. */
export interface FlowLine {
  readonly id: string;
  readonly kind: EdgeKind | "many";
  readonly from: Box;
  readonly to: Box;
  readonly label: string;
  readonly isLive: boolean;
  /** Something at one of its ends is selected. */
  readonly isNear: boolean;
}

const COLOUR: Readonly<Record<FlowLine["kind"], string>> = {
  read: "var(--accent)",
  wrote: "var(--artifact)",
  invoked: "var(--membrane)",
  sold: "var(--money)",
  delegated: "var(--agent)",
  depends: "var(--ink-3)",
  many: "var(--accent)",
};

export function routeOf(line: FlowLine): Route {
  const isColumn = line.kind === "depends" && Math.abs(line.from.x - line.to.x) < line.from.width / 2;
  return (isColumn ? routeAside : routeBetween)(line.from, line.to);
}

/** Grey, unless it carries something now. */
export const FlowEdge = memo(function FlowEdge({ line }: { readonly line: FlowLine }) {
  const { path } = routeOf(line);
  const colour = line.isLive ? COLOUR[line.kind] : line.isNear ? "var(--ink-2)" : "var(--edge)";
  return (
    <g data-edge={line.kind} data-live={line.isLive || undefined}>
      <path
        d={path}
        fill="none"
        strokeWidth={line.isLive ? 1.8 : 1.3}
        markerEnd="url(#flow-arrow)"
        className={cx(line.isLive && "flow-live")}
        style={{ stroke: colour }}
        strokeDasharray={line.isLive ? "6 5" : line.kind === "depends" ? "2 4" : undefined}
      />
    </g>
  );
});
