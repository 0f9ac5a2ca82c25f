import type { WireEvent } from "@/projection/event";

/** Events as a server would send them: positions ascend, each stream counts its own seq. */
export class History {
  readonly events: WireEvent[] = [];
  readonly #seqs = new Map<string, number>();

  add(
    stream: string,
    kind: string,
    data: Record<string, unknown> = {},
    rest: { readonly texts?: Record<string, string>; readonly actor?: string; readonly space?: string } = {},
  ): this {
    const seq = (this.#seqs.get(stream) ?? 0) + 1;
    this.#seqs.set(stream, seq);
    const position = (this.events.at(-1)?.position ?? 0) + 1;
    this.events.push({
      position,
      stream,
      space: rest.space ?? "main",
      seq,
      kind,
      at_us: 1_790_000_000_000_000 + position * 1_000_000,
      actor: rest.actor ?? "system",
      cause: null,
      data,
      texts: rest.texts ?? {},
    });
    return this;
  }
}

/** A goal with two tasks: the second waits for the first, which makes one artifact and passes. */
export function churn(): History {
  const open = (read: string[]) => ({ policy: "allow", allow: { read } });
  return new History()
    .add("tenant:default", "tenant.created", { budget: 2_000_000 })
    .add(
      "run:churn",
      "run.started",
      { loop: "mission", agent: "", model: "m", goal: "b:g" },
      { texts: { goal: "Why did churn rise?" } },
    )
    .add("run:churn", "mission.planned", { key: "plan", plan: "b:p", calls: 12, cost: 90_000 })
    .add(
      "run:churn",
      "approval.requested",
      { key: "launch", question: "b:q" },
      { texts: { question: '{"question":"Launch it?","details":{"tasks":2}}' } },
    )
    .add(
      "run:churn",
      "approval.given",
      { key: "launch", decision: "approve", queued: false },
      { actor: "user:ada" },
    )
    .add("artifact:churn/study", "artifact.written", {
      id: "churn/study",
      kind: "membrane",
      version: 1,
      owner: "operator",
      creator: "operator",
      media: "json",
      size_bytes: 20,
      access: open(["membrane:churn/study"]),
      content: "b:1",
    })
    .add("artifact:churn/study", "group.joined", { group: "churn/study", principal: "churn/analyst" })
    .add("artifact:churn/analyst", "artifact.written", {
      id: "churn/analyst",
      kind: "agent",
      version: 1,
      owner: "operator",
      creator: "operator",
      media: "json",
      size_bytes: 20,
      access: { policy: "private" },
      content: "b:2",
    })
    .add("artifact:churn/figures", "artifact.written", {
      id: "churn/figures",
      kind: "task",
      version: 1,
      owner: "operator",
      creator: "operator",
      media: "json",
      size_bytes: 20,
      access: { policy: "private" },
      content: "b:3",
    })
    .add("artifact:churn/figures", "task.created", {
      task: "churn/figures",
      mission: "churn",
      agent: "churn/analyst",
      max_iterations: 5,
    })
    .add("artifact:churn/letter", "task.created", {
      task: "churn/letter",
      mission: "churn",
      agent: "churn/writer",
      depends_on: ["churn/figures"],
      max_iterations: 3,
    })
    .add("run:churn", "mission.launched", {
      key: "launched",
      plan: "b:p",
      agents: ["churn/analyst", "churn/writer"],
      tasks: ["churn/figures", "churn/letter"],
      membranes: ["churn/study"],
    })
    .add("run:churn/figures", "run.started", {
      loop: "task",
      agent: "churn/analyst",
      model: "m",
      parent: "churn",
    })
    .add("run:churn/figures", "task.begun", { key: "begun", agent: "churn/analyst", max_iterations: 5 })
    .add("run:churn/figures", "model.requested", {
      key: "c1/decision",
      model: "m",
      counts: [
        ["run:churn/figures", "usd", 41_000, 0],
        ["tenant", "usd", 41_000, 0],
      ],
    })
    .add("run:churn/figures", "model.completed", {
      key: "c1/decision",
      reply: "b:r",
      input_tokens: 900,
      cached_input_tokens: 300,
      output_tokens: 100,
      cost: 12_000,
    })
    .add(
      "run:churn/figures",
      "decision.taken",
      { key: "c1/decision", iteration: 1, decision: "b:d", action: "create_artifact" },
      { texts: { decision: '{"action":"create_artifact","reason":"numbers agree"}' } },
    )
    .add("artifact:churn/table", "artifact.written", {
      id: "churn/table",
      kind: "dataset",
      version: 1,
      owner: "churn/analyst",
      creator: "churn/analyst",
      media: "text",
      size_bytes: 80,
      access: open(["operator", "membrane:churn/study"]),
      run_id: "churn/figures",
      content: "b:4",
    })
    .add("run:churn/figures", "decision.executed", {
      key: "c1/act",
      iteration: 1,
      action: "create_artifact",
      artifact: "churn/table@1",
      read: ["sales@1"],
    })
    .add(
      "run:churn/figures",
      "task.evaluated",
      { key: "c1/evaluation", iteration: 1, passed: true, verdict: "b:v", outputs: ["churn/table@1"] },
      { texts: { verdict: '{"summary":"3 of 3 met"}' } },
    )
    .add("run:churn/figures", "task.ended", {
      key: "ended",
      status: "done",
      iterations: 1,
      outputs: ["churn/table@1"],
    })
    .add("run:churn/figures", "run.completed", {});
}
