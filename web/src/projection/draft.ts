import type {
  Agent,
  Approval,
  Artifact,
  Costs,
  Edge,
  EdgeKind,
  Graph,
  Membrane,
  Mission,
  Run,
  Spend,
  Task,
} from "./graph";
import { NOTHING_SPENT } from "./graph";
import { MAIN_SPACE, missionOf, shortName, type WireEvent } from "./event";

interface Collections {
  agents: Agent;
  tasks: Task;
  artifacts: Artifact;
  membranes: Membrane;
  missions: Mission;
  edges: Edge;
  runs: Run;
  approvals: Approval;
}
type CollectionName = keyof Collections;

/**
 * The next graph while a batch is folded. A collection is copied once per batch, when it is first
 * written; what nothing happened to keeps its identity.
 */
export class Draft {
  #graph: Graph;
  readonly #owned = new Set<string>();

  constructor(graph: Graph) {
    this.#graph = { ...graph };
  }

  finish(): Graph {
    return this.#graph;
  }

  advance(event: WireEvent): void {
    this.#graph = {
      ...this.#graph,
      position: event.position,
      atUs: Math.max(this.#graph.atUs, event.space === MAIN_SPACE ? event.at_us : 0),
      events: this.#graph.events + 1,
    };
  }

  get<N extends CollectionName>(name: N, id: string): Collections[N] | undefined {
    return (this.#graph[name] as ReadonlyMap<string, Collections[N]>).get(id);
  }

  all<N extends CollectionName>(name: N): Iterable<Collections[N]> {
    return (this.#graph[name] as ReadonlyMap<string, Collections[N]>).values();
  }

  put<N extends CollectionName>(name: N, id: string, value: Collections[N]): void {
    if (!this.#owned.has(name)) {
      this.#owned.add(name);
      this.#graph = { ...this.#graph, [name]: new Map(this.#graph[name] as ReadonlyMap<string, unknown>) };
    }
    (this.#graph[name] as Map<string, Collections[N]>).set(id, value);
  }

  /** Changes some fields of what is there; does nothing if it is not. */
  patch<N extends CollectionName>(name: N, id: string, fields: Partial<Collections[N]>): void {
    const before = this.get(name, id);
    if (before !== undefined) this.put(name, id, { ...before, ...fields });
  }

  get costs(): Costs {
    return this.#graph.costs;
  }

  setCosts(fields: Partial<Costs>): void {
    this.#graph = { ...this.#graph, costs: { ...this.#graph.costs, ...fields } };
  }

  link(kind: EdgeKind, source: string, target: string, event: WireEvent): void {
    if (source === "" || target === "" || source === target) return;
    const id = `${kind}:${source}>${target}`;
    const before = this.get("edges", id);
    this.put("edges", id, {
      id,
      kind,
      source,
      target,
      count: (before?.count ?? 0) + 1,
      lastPosition: event.position,
      lastUs: event.at_us,
    });
  }

  /** The agent of that id, made if runs or tasks name it before its artifact does. */
  agent(id: string): Agent {
    return (
      this.get("agents", id) ?? {
        id,
        mission: missionOf(id),
        name: shortName(id),
        role: "",
        version: 0,
        deleted: false,
        runId: "",
        task: "",
        action: "",
        iteration: 0,
        iterationsMax: 0,
        steering: "",
        spend: NOTHING_SPENT,
        lastUs: 0,
      }
    );
  }

  spend(runId: string, model: string, more: Partial<Spend>): void {
    const { total, byModel } = this.costs;
    const models = new Map(byModel);
    if (model !== "") models.set(model, plus(models.get(model) ?? NOTHING_SPENT, more));
    this.setCosts({ total: plus(total, more), byModel: models });
    const run = this.get("runs", runId);
    if (run === undefined) return;
    this.put("runs", runId, { ...run, spend: plus(run.spend, more) });
    if (run.agent !== "") {
      const agent = this.agent(run.agent);
      this.put("agents", agent.id, { ...agent, spend: plus(agent.spend, more) });
    }
  }
}

export function plus(spend: Spend, more: Partial<Spend>): Spend {
  return {
    microusd: spend.microusd + (more.microusd ?? 0),
    inputTokens: spend.inputTokens + (more.inputTokens ?? 0),
    cachedTokens: spend.cachedTokens + (more.cachedTokens ?? 0),
    outputTokens: spend.outputTokens + (more.outputTokens ?? 0),
    unpriced: spend.unpriced + (more.unpriced ?? 0),
    calls: spend.calls + (more.calls ?? 0),
  };
}
