import { useMemo, useRef } from "react";
import type { Graph } from "@/projection/graph";
import { shownMission } from "@/projection/standing";
import type { UiState } from "@/state/ui";
import { useUi } from "@/state/ui";
import { Composer, type Composed, selectedNode } from "./compose";
import { around, type Box } from "./layout/box";
import { type Detail, detailOf } from "./layout/detail";
import type { Point } from "./layout/arrange";
import { type Room, rooms as roomsOf } from "./layout/rooms";
import { useLayout } from "./layout/useLayout";
import { type Scene, sceneOf } from "./scene";
import { type CanvasState, useCanvas } from "./store";
import { useLiveEdges } from "./useLiveEdges";

export interface Stage extends Composed {
  readonly scene: Scene;
  /** Where everything stands, what is dragged where it is held. */
  readonly boxes: ReadonlyMap<string, Box>;
  /** The same without the drag. */
  readonly settled: ReadonlyMap<string, Box>;
  /** Membranes as they are while nothing is dragged: leaving one must be possible. */
  readonly rooms: readonly Room[];
  readonly detail: Detail;
  /** Around all that there is; null if nothing is. */
  readonly bounds: Box | null;
  /** The corner of each goal, from which places are counted that people chose. */
  readonly origins: ReadonlyMap<string, Point>;
  /** Around what belongs to the goal that is shown; null if nothing does. */
  readonly newest: Box | null;
}

const EVERYWHERE: Box = { x: -1e9, y: -1e9, width: 2e9, height: 2e9 };

const pendingOf = (state: CanvasState) => state.pending;
const movedOf = (state: CanvasState) => state.moved;
const dragOf = (state: CanvasState) => state.drag;
const selectionOf = (state: UiState) => state.selection;
const isPastOf = (state: UiState) => state.travel !== null;

/** The structure of a scene as text: while it stays the same, so do places and membranes. */
function shapeOf(scene: Scene): string {
  const things = scene.things.map((one) => `${one.node}|${one.membranes.join(",")}|${one.beside}`);
  return [...things, ...scene.links.map((one) => one.id)].join("\n");
}

/** What is dragged where it is held, and its tasks with it. */
function dragged(
  scene: Scene,
  settled: ReadonlyMap<string, Box>,
  drag: CanvasState["drag"],
): ReadonlyMap<string, Box> {
  const held = drag === null ? undefined : settled.get(drag.node);
  if (drag === null || held === undefined) return settled;
  const boxes = new Map(settled).set(drag.node, { ...held, x: drag.x, y: drag.y });
  for (const thing of scene.things) {
    const box = thing.kind === "task" && thing.beside === drag.node ? settled.get(thing.node) : undefined;
    if (box !== undefined)
      boxes.set(thing.node, { ...box, x: box.x + drag.x - held.x, y: box.y + drag.y - held.y });
  }
  return boxes;
}

/** From the graph to what React Flow mounts for the part of the plane that is seen. */
export function useStage(graph: Graph, view: Box | null, mission: string): Stage {
  const pending = useCanvas(pendingOf);
  const moved = useCanvas(movedOf);
  const drag = useCanvas(dragOf);
  const selection = useUi(selectionOf);
  const isPast = useUi(isPastOf);
  const live = useLiveEdges(graph);
  const kept = useRef({ isClustered: false, composer: new Composer() });

  const scene = useMemo(() => sceneOf(graph, { mission, pending }), [graph, mission, pending]);
  const shape = useMemo(() => shapeOf(scene), [scene]);
  const memberships = scene.membranes.map((one) => one.id).join("\n");

  const newestMission = shownMission(graph, mission);
  const layout = useLayout(scene, shape, moved);
  const { rooms, bounds, newest } = useMemo(() => {
    const found = roomsOf(scene, layout.boxes);
    const all = around([...layout.boxes.values(), ...found.map((room) => room.box)]);
    const mine = scene.things.filter((thing) => thing.mission !== "" && thing.mission === newestMission);
    return {
      rooms: found,
      bounds: all,
      newest: around(mine.flatMap((thing) => layout.boxes.get(thing.node) ?? [])),
    };
    // `layout` and `memberships` say all of the scene that rooms depend on.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [layout, memberships, newestMission]);

  const boxes = useMemo(() => dragged(scene, layout.boxes, drag), [scene, layout, drag]);

  const detail = useMemo(() => {
    const next = detailOf(scene, boxes, view ?? EVERYWHERE, kept.current.isClustered);
    kept.current.isClustered = next.isClustered;
    return next;
  }, [scene, boxes, view]);

  const composed = useMemo(() => {
    const pendingAgents = new Set([...pending.keys()].map((key) => key.split(" ")[0] ?? ""));
    const selected = selectedNode(selection);
    const canMove = !isPast;
    return kept.current.composer.compose({
      graph, scene, boxes, rooms, detail, selected, live, pendingAgents, canMove,
    }); // prettier-ignore
  }, [graph, scene, boxes, rooms, detail, selection, live, pending, isPast]);

  return {
    ...composed,
    scene,
    boxes,
    settled: layout.boxes,
    origins: layout.origins,
    rooms,
    detail,
    bounds,
    newest,
  };
}
