import { isFinal } from "./graph";
import type { Agent, Approval, Artifact, Graph, Membrane, Mission, Run, Task } from "./graph";

/** Answers that several screens ask of a graph. Pure; use them with `useProjection`. */

export interface Vitals {
  readonly spentMicrousd: number;
  readonly heldMicrousd: number;
  /** null: no cap. */
  readonly budgetMicrousd: number | null;
  /** Calls whose price nobody knows: then `spent` is a lower bound. */
  readonly unpriced: number;
  readonly runningAgents: number;
  readonly agents: number;
  readonly waitingApprovals: number;
}

const WORKING = new Set<Run["status"]>(["running", "waiting", "waiting_approval", "unknown_outcome"]);

export function vitals(graph: Graph): Vitals {
  const agents = [...graph.agents.values()].filter((agent) => !agent.deleted);
  let held = 0;
  for (const amount of graph.costs.held.values()) held += amount;
  return {
    spentMicrousd: graph.costs.total.microusd,
    heldMicrousd: held,
    budgetMicrousd: graph.costs.caps.get("tenant") ?? null,
    unpriced: graph.costs.total.unpriced,
    runningAgents: agents.filter((agent) => graph.runs.get(agent.runId)?.status === "running").length,
    agents: agents.length,
    waitingApprovals: waitingApprovals(graph).length,
  };
}

/** Approvals that wait for a person, the oldest first; those of ended runs wait for nobody. */
export function waitingApprovals(graph: Graph): readonly Approval[] {
  const open = [...graph.approvals.values()].filter((approval) => {
    const run = graph.runs.get(approval.runId);
    return approval.decision === "" && run !== undefined && !isFinal(run.status);
  });
  return open.sort((a, b) => a.askedUs - b.askedUs);
}

/** Roots of the trees of runs that can still go on, the newest first. Their children follow them. */
export function openRoots(graph: Graph): readonly Run[] {
  const roots = [...graph.runs.values()].filter((run) => run.parent === "" && !isFinal(run.status));
  return roots.sort((a, b) => b.startedUs - a.startedUs);
}

export function isWorking(run: Run): boolean {
  return WORKING.has(run.status);
}

export function liveAgents(graph: Graph): readonly Agent[] {
  return [...graph.agents.values()]
    .filter((agent) => !agent.deleted)
    .sort((a, b) => a.id.localeCompare(b.id));
}

export function liveArtifacts(graph: Graph): readonly Artifact[] {
  return [...graph.artifacts.values()]
    .filter((one) => !one.deleted)
    .sort((a, b) => b.changedUs - a.changedUs);
}

const OF_THEIR_OWN: ReadonlySet<string> = new Set([
  "agent",
  "task",
  "membrane",
  "steering",
  "memory_block",
  "memory_store",
]);

/** What was made, without the artifacts that screens show as what they are: agents, tasks, membranes, steering, memory. */
export function madeArtifacts(graph: Graph): readonly Artifact[] {
  return liveArtifacts(graph).filter((one) => !OF_THEIR_OWN.has(one.kind));
}

export function liveMembranes(graph: Graph): readonly Membrane[] {
  return [...graph.membranes.values()].filter((one) => !one.deleted);
}

export function allTasks(graph: Graph): readonly Task[] {
  return [...graph.tasks.values()];
}

/** The newest first. */
export function missions(graph: Graph): readonly Mission[] {
  return [...graph.missions.values()].sort((a, b) => b.plannedUs - a.plannedUs);
}
