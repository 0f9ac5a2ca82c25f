import { type Connection, type Edge, Handle, type Node, Position, ReactFlow } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import "./plan.css";
import { type KeyboardEvent, useMemo } from "react";
import { arrange } from "@/canvas/layout/arrange";
import { useIsPhone } from "@/shell/useIsPhone";
import { cx } from "@/ui/cx";
import { canRead, type Draft, withDependency } from "./draft";

interface PlanGraphProps {
  readonly draft: Draft;
  readonly onChange: (draft: Draft) => void;
  /** Leads to the fields of a task. */
  readonly onShow: (path: string) => void;
}

type TaskNode = Node<{ readonly title: string; readonly agent: string; readonly rooms: string }, "task">;

const SIZE = { width: 190, height: 58 };
const NODE_TYPES = { task: PlannedTask };

/** The plan as a graph: pull a line from a task to the one that begins after it; press a line to take it off. */
export default function PlanGraph({ draft, onChange, onShow }: PlanGraphProps) {
  const { nodes, edges } = useMemo(() => graphOf(draft), [draft]);
  const isPhone = useIsPhone();
  const connect = ({ source, target }: Connection) => onChange(withDependency(draft, target, source, true));
  const cut = ({ source, target }: Pick<Edge, "source" | "target">) =>
    onChange(withDependency(draft, target, source, false));
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Delete" && event.key !== "Backspace") return;
    const line = (event.target as Element).closest(".react-flow__edge")?.getAttribute("data-id");
    const edge = edges.find((one) => one.id === line);
    if (edge !== undefined) cut(edge);
  };
  return (
    <div className="flex flex-col gap-1">
      <div className="h-60 rounded-card border border-line bg-paper max-tablet:h-44">
        <ReactFlow<TaskNode>
          key={`${draft.tasks.length} ${isPhone}`}
          nodes={nodes}
          edges={edges}
          nodeTypes={NODE_TYPES}
          fitView
          fitViewOptions={{ maxZoom: 1, padding: 0.15 }}
          minZoom={0.2}
          nodesDraggable={false}
          zoomOnScroll={false}
          preventScrolling={false}
          deleteKeyCode={null}
          onKeyDown={onKeyDown}
          onConnect={connect}
          onEdgeClick={(_event, edge) => cut(edge)}
          onNodeClick={(_event, node) =>
            onShow(`tasks.${draft.tasks.findIndex((task) => task.slug === node.id)}`)
          }
          proOptions={{ hideAttribution: true }}
          aria-label="Plan as a graph"
        />
      </div>
      <p className="text-12 text-ink-2">
        Pull a line from the right edge of a task to the one that begins after it; press a line, or Delete on
        it, to take it off. The same stands below each task as “Begins after”.
      </p>
    </div>
  );
}

function graphOf(draft: Draft): { readonly nodes: TaskNode[]; readonly edges: Edge[] } {
  const known = new Map(draft.tasks.map((task) => [task.slug, task]));
  const links = draft.tasks.flatMap((task) =>
    task.dependsOn
      .filter((before) => known.has(before))
      .map((before): [string, string] => [before, task.slug]),
  );
  const blocks = draft.tasks.map(({ slug }) => ({ node: slug, ...SIZE, home: "" }));
  const at = arrange({ goal: "", blocks, links });
  const nodes = draft.tasks.map((task): TaskNode => {
    const agent = draft.agents.find((one) => one.slug === task.agent);
    const rooms = draft.membranes.filter((one) => one.members.includes(task.agent));
    const data = {
      title: task.slug,
      agent: agent === undefined ? "nobody" : agent.name || agent.slug,
      rooms: rooms.map((one) => one.name || one.slug).join(", "),
    };
    return {
      ...{ id: task.slug, type: "task" as const, position: at.get(task.slug) ?? { x: 0, y: 0 }, data },
      ...{ ...SIZE, deletable: false, ariaLabel: `Task ${task.slug}, ${data.agent}` },
    };
  });
  const edges = links.map(([source, target]): Edge => {
    const [task, before] = [known.get(target), known.get(source)];
    const isHidden = task !== undefined && before !== undefined && !canRead(draft, task, before);
    const colour = isHidden ? "var(--bad)" : "var(--edge)";
    return {
      ...{ id: `${source}>${target}`, source, target, style: { stroke: colour, strokeWidth: 2 } },
      ...(isHidden && { label: "not readable", labelStyle: { fill: "var(--bad)", fontSize: 11 } }),
      labelBgStyle: { fill: "var(--paper)" },
      ariaLabel: `${target} begins after ${source}${isHidden ? ", but cannot read what it makes" : ""}`,
    };
  });
  return { nodes, edges };
}

function PlannedTask({ data, selected }: { readonly data: TaskNode["data"]; readonly selected?: boolean }) {
  return (
    <div
      className={cx(
        "flex size-full flex-col justify-center rounded-control border bg-panel px-2.5 text-12",
        selected === true ? "border-accent" : "border-line",
      )}
    >
      <Handle type="target" position={Position.Left} className="plan-handle" />
      <span className="truncate font-semibold">{data.title}</span>
      <span className="truncate text-agent">{data.agent}</span>
      {data.rooms !== "" && <span className="truncate text-11 text-membrane">{data.rooms}</span>}
      <Handle type="source" position={Position.Right} className="plan-handle" />
    </div>
  );
}
