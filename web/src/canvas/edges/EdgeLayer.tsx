import { ViewportPortal } from "@xyflow/react";
import { memo } from "react";
import { FlowEdge, type FlowLine } from "./FlowEdge";
import { FlowWord } from "./FlowWord";

/**
 * All lines as one picture below the nodes, their words as one above. They are ours, not React Flow's, because they go from box to box without
 * handles that would have to be measured in the page.
 */
export const EdgeLayer = memo(function EdgeLayer({ lines }: { readonly lines: readonly FlowLine[] }) {
  return (
    <ViewportPortal>
      <svg aria-hidden="true" className="flow-lines">
        <defs>
          <marker
            id="flow-arrow"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto"
          >
            <path d="M1 1 7 4 1 7" fill="none" stroke="context-stroke" strokeWidth="1.4" />
          </marker>
        </defs>
        {lines.map((line) => (
          <FlowEdge key={line.id} line={line} />
        ))}
      </svg>
      <svg aria-hidden="true" className="flow-lines flow-words">
        {lines.map((line) => line.isNear && <FlowWord key={line.id} line={line} />)}
      </svg>
    </ViewportPortal>
  );
});
