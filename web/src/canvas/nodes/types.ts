import type { Node } from "@xyflow/react";
import type { Agent, Artifact, Membrane, Run, Task } from "@/projection/graph";
import type { StatusWords } from "@/projection/status";

/** Nodes as React Flow has them. Data holds values of the graph, so that an unchanged one is not drawn anew. */
export type AgentNodeType = Node<
  {
    readonly agent: Agent;
    readonly run: Run | undefined;
    readonly words: StatusWords;
    readonly isPending: boolean;
  },
  "agent"
>;
export type TaskNodeType = Node<
  { readonly task: Task; readonly title: string; readonly words: StatusWords },
  "task"
>;
export type ArtifactNodeType = Node<{ readonly artifact: Artifact; readonly maker: string }, "artifact">;
export type RoomNodeType = Node<
  {
    readonly membrane: Membrane;
    readonly tone: "membrane" | "membrane2";
    readonly isIsland: boolean;
    readonly depth: number;
  },
  "room"
>;
export type ClusterNodeType = Node<
  {
    readonly title: string;
    readonly isMembrane: boolean;
    readonly agents: number;
    readonly tasks: number;
    readonly done: number;
    /** Tasks that failed or are blocked. */
    readonly notDone: number;
    readonly artifacts: number;
    readonly working: number;
    readonly waiting: number;
    readonly tone: "membrane" | "membrane2";
  },
  "cluster"
>;
export type AnyNode = AgentNodeType | TaskNodeType | ArtifactNodeType | RoomNodeType | ClusterNodeType;
