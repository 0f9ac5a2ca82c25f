import type { Graph } from "@/projection/graph";

/** What must be read again when it changes: text that is another one after each event that matters. */

export function agentRevision(graph: Graph, id: string): string {
  const agent = graph.agents.get(id);
  const groups = [...graph.membranes.values()].filter((one) => one.members.has(id));
  return [
    agent?.version ?? 0,
    agent?.lastUs ?? 0,
    agent?.task ?? "",
    graph.runs.get(agent?.runId ?? "")?.lastPosition ?? 0,
    steeringRevision(graph, id),
    graph.costs.caps.get(`agent:${id}`) ?? "",
    ...groups.map((one) => `${one.id} ${steeringRevision(graph, one.id)}`),
  ].join(" ");
}

export function steeringRevision(graph: Graph, about: string): string {
  return String(graph.artifacts.get(`${about}/steering`)?.version ?? 0);
}

export function taskRevision(graph: Graph, id: string): string {
  const task = graph.tasks.get(id);
  return [
    graph.artifacts.get(id)?.version ?? 0,
    graph.runs.get(id)?.lastPosition ?? 0,
    task?.status ?? "",
    task?.iteration ?? 0,
    task?.agent ?? "",
  ].join(" ");
}

export function artifactRevision(graph: Graph, id: string): string {
  const artifact = graph.artifacts.get(id);
  return [artifact?.version ?? 0, artifact?.owner ?? "", String(artifact?.deleted ?? false)].join(" ");
}

export function membraneRevision(graph: Graph, id: string): string {
  const membrane = graph.membranes.get(id);
  return [
    membrane?.version ?? 0,
    [...(membrane?.members ?? [])].join(","),
    [...(membrane?.shared ?? [])].join(","),
    steeringRevision(graph, id),
    graph.costs.caps.get(`membrane:${id}`) ?? "",
  ].join(" ");
}
