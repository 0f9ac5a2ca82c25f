import type { NodeChange, OnNodesChange } from "@xyflow/react";
import { useCallback, useRef } from "react";
import { mayAct } from "@/client/session";
import { select, toast, useUi } from "@/state/ui";
import { dropOf } from "./drop";
import type { Point } from "./layout/arrange";
import { changeMembership } from "./membership";
import type { AnyNode } from "./nodes/types";
import { membranesOf } from "./scene";
import { moveNode, setCanvas, useCanvas } from "./store";
import { eventLog } from "@/state/log";
import type { Stage } from "./useStage";

const KINDS = { agent: "agent", task: "task", artifact: "artifact", room: "membrane" } as const;

/** `agent:churn/analyst` is `["agent", "churn/analyst"]`. */
function splitNode(node: string): readonly [kind: string, id: string] {
  const colon = node.indexOf(":");
  return [node.slice(0, colon), node.slice(colon + 1).replace(/#\d+$/, "")];
}

export function selectNode(node: string): void {
  const [kind, id] = splitNode(node);
  if (kind in KINDS) select(KINDS[kind as keyof typeof KINDS], id);
}

/** A place as it is kept: from the corner of its goal, which stands elsewhere on the canvas of everything. */
function withinGoal({ scene, origins }: Stage, node: string, at: Point): Point {
  const goal = scene.things.find((one) => one.node === node)?.mission ?? "";
  const origin = origins.get(goal) ?? { x: 0, y: 0 };
  return { x: at.x - origin.x, y: at.y - origin.y };
}

/** What a drag or the keyboard does to nodes: places, selection, and who is in which membrane. */
export function useNodeMoves(stage: Stage) {
  const latest = useRef(stage);
  latest.current = stage;

  const onNodesChange: OnNodesChange<AnyNode> = useCallback((changes: NodeChange<AnyNode>[]) => {
    for (const change of changes) {
      if (change.type === "select" && change.selected) selectNode(change.id);
      if (change.type !== "position" || change.position === undefined) continue;
      if (change.dragging === true) setCanvas({ drag: { node: change.id, ...change.position } });
      // Arrow keys: a move without a drag. It changes places alone; the menu joins and leaves.
      else if (useCanvas.getState().drag === null) {
        moveNode(change.id, withinGoal(latest.current, change.id, change.position));
      }
    }
  }, []);

  const onNodeDragStop = useCallback((_event: unknown, node: { readonly id: string }) => {
    const { drag, moved } = useCanvas.getState();
    if (drag === null || drag.node !== node.id) return;
    setCanvas({ drag: null });
    const before = moved.get(node.id) ?? null;
    const from = latest.current.settled.get(node.id);
    moveNode(node.id, withinGoal(latest.current, node.id, drag));
    const [kind, id] = splitNode(node.id);
    if (kind === "agent" && from !== undefined) {
      void dropped(latest.current, id, from, { ...from, x: drag.x, y: drag.y }, () =>
        moveNode(node.id, before),
      );
    }
  }, []);

  return { onNodesChange, onNodeDragStop };
}

async function dropped(
  stage: Stage,
  agent: string,
  from: Parameters<typeof dropOf>[2],
  to: Parameters<typeof dropOf>[3],
  undo: () => void,
): Promise<void> {
  const memberOf = membranesOf(eventLog.graph, agent, useCanvas.getState().pending);
  const { joins, leaves } = dropOf(stage.rooms, memberOf, from, to);
  if (joins.length + leaves.length === 0) return;
  if (!mayAct(useUi.getState().me)) {
    undo();
    toast("Only operators change who is in a membrane", { advice: "Your role is viewer: you can look." });
    return;
  }
  for (const membrane of joins) await changeMembership({ agent, membrane, isIn: true }, undo);
  for (const membrane of leaves) await changeMembership({ agent, membrane, isIn: false }, undo);
}
