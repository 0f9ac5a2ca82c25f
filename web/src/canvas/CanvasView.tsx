import { Background, ReactFlow, ReactFlowProvider } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import "./canvas.css";
import { useEffect, useMemo, useRef } from "react";
import type { Graph } from "@/projection/graph";
import { setUi, useUi } from "@/state/ui";
import { AgentBar } from "./AgentBar";
import { CanvasControls } from "./CanvasControls";
import { CanvasSearch } from "./CanvasSearch";
import { EdgeLayer } from "./edges/EdgeLayer";
import { centre } from "./layout/box";
import { ZOOM_MAX, ZOOM_MIN } from "./layout/look";
import { settle } from "./membership";
import { MiniMap } from "./MiniMap";
import { AgentNode } from "./nodes/AgentNode";
import { ArtifactNode } from "./nodes/ArtifactNode";
import { ClusterNode } from "./nodes/ClusterNode";
import { RoomNode } from "./nodes/RoomNode";
import { TaskNode } from "./nodes/TaskNode";
import type { AnyNode } from "./nodes/types";
import { loadPlaces } from "./store";
import { selectNode, useNodeMoves } from "./useNodeMoves";
import { useStage } from "./useStage";
import { useViewport } from "./useViewport";
import { setCanvasView, takeWanted } from "./view";

const NODE_TYPES = {
  agent: AgentNode,
  task: TaskNode,
  artifact: ArtifactNode,
  room: RoomNode,
  cluster: ClusterNode,
};

interface CanvasViewProps {
  readonly graph: Graph;
  /** The goal that it shows; "" for everything. */
  readonly mission: string;
}

export function CanvasView(props: CanvasViewProps) {
  return (
    <ReactFlowProvider key={props.mission}>
      <Canvas {...props} />
    </ReactFlowProvider>
  );
}

function Canvas({ graph, mission }: CanvasViewProps) {
  const wrapper = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const { view, initial, onMove, onMoveStart, moves } = useViewport(wrapper, mission);
  const stage = useStage(graph, view, mission);
  const { onNodesChange, onNodeDragStop } = useNodeMoves(stage);
  const tenant = useUi((state) => state.me?.tenant);
  const selection = useUi((state) => state.selection);
  const agent = selection?.kind === "agent" ? graph.agents.get(selection.id) : undefined;
  const latest = useRef(stage);
  latest.current = stage;

  useEffect(loadPlaces, [tenant]);
  useEffect(() => settle(graph), [graph]);
  useEffect(() => moves.follow(stage.newest, stage.bounds), [moves, stage.newest, stage.bounds]);

  useEffect(() => {
    const box = stage.boxes.get(takeWanted(stage.boxes));
    if (box !== undefined) moves.centreOn(centre(box).x, centre(box).y);
  }, [moves, stage.boxes]);

  const actions = useMemo(() => {
    const show = (node: string) => {
      const room = latest.current.rooms.find((one) => `room:${one.id}` === node);
      const box = latest.current.boxes.get(node);
      selectNode(node);
      if (room !== undefined) moves.showBox(room.box);
      else if (box !== undefined) moves.centreOn(centre(box).x, centre(box).y);
    };
    return {
      zoomBy: moves.zoomBy,
      panBy: moves.panBy,
      showBox: (box: Parameters<typeof moves.showBox>[0]) => void moves.showBox(box),
      fit: () => moves.fit(latest.current.bounds),
      followNewest: moves.followNewest,
      show,
      focusSearch: () => field.current?.focus(),
    };
  }, [moves]);
  useEffect(() => {
    setCanvasView(actions);
    return () => setCanvasView(null);
  }, [actions]);

  const onNodeClick = (_event: unknown, node: AnyNode) => {
    const cluster = stage.detail.clusters.find((one) => one.node === node.id);
    if (cluster === undefined) selectNode(node.id);
    else moves.showBox(cluster.box);
  };

  return (
    <div ref={wrapper} className="absolute inset-0" data-mounted={stage.nodes.length}>
      <ReactFlow<AnyNode>
        nodes={stage.nodes}
        nodeTypes={NODE_TYPES}
        defaultViewport={initial}
        minZoom={ZOOM_MIN}
        maxZoom={ZOOM_MAX}
        nodesConnectable={false}
        deleteKeyCode={null}
        selectionKeyCode={null}
        multiSelectionKeyCode={null}
        zoomOnDoubleClick={false}
        elevateNodesOnSelect={false}
        onNodesChange={onNodesChange}
        onNodeClick={onNodeClick}
        onNodeDragStop={onNodeDragStop}
        onPaneClick={() => setUi({ selection: null })}
        onMove={onMove}
        onMoveStart={onMoveStart}
        proOptions={{ hideAttribution: true }}
        aria-label="Canvas"
      >
        <Background gap={22} size={1} color="var(--line)" />
        <EdgeLayer lines={stage.lines} />
      </ReactFlow>
      <div className="absolute top-3 left-3 z-10">
        <CanvasSearch graph={graph} scene={stage.scene} onShow={actions.show} field={field} />
      </div>
      {agent !== undefined && agent.version > 0 && (
        <div className="absolute top-3 right-3 z-10 max-w-[calc(100%-280px)]">
          <AgentBar graph={graph} agent={agent} />
        </div>
      )}
      <div className="absolute bottom-3 left-3 z-10">
        <CanvasControls />
      </div>
      <div className="absolute right-3 bottom-3 z-10 max-tablet:hidden">
        <MiniMap stage={stage} onGo={(x, y) => moves.centreOn(x, y, false)} />
      </div>
    </div>
  );
}
