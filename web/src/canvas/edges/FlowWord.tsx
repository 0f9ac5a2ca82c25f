import { type FlowLine, routeOf } from "./FlowEdge";

/** What a line of the selected thing means, in front of the nodes that it passes. */
export function FlowWord({ line }: { readonly line: FlowLine }) {
  const { middle } = routeOf(line);
  return (
    <text x={middle.x} y={middle.y - 5} textAnchor="middle" className="flow-word">
      {line.label}
    </text>
  );
}
