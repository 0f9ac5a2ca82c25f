import type { Shape } from "@/client/types";

type Plan = Shape<"Plan">;

/** A plan while somebody edits it: numbers and lists as they are typed. */
export interface DraftAgent {
  readonly slug: string;
  readonly name: string;
  readonly role: string;
  readonly tools: string;
  readonly model: string;
  readonly budget: string;
}
export interface DraftTask {
  readonly slug: string;
  readonly goal: string;
  readonly criteria: string;
  readonly agent: string;
  readonly dependsOn: readonly string[];
  readonly iterations: string;
  /** Checks and inputs, which the dialog shows but does not edit. */
  readonly rest: Omit<Plan["tasks"][number], "slug" | "goal" | "success_criteria" | "agent">;
}
export interface DraftMembrane {
  readonly slug: string;
  readonly name: string;
  readonly members: readonly string[];
  readonly budget: string;
  readonly shared: readonly string[];
}
export interface Draft {
  readonly agents: readonly DraftAgent[];
  readonly tasks: readonly DraftTask[];
  readonly membranes: readonly DraftMembrane[];
}

/** What is wrong, by the path of its field (`tasks.1.goal`); "" for what belongs to no field. */
export type Mistakes = ReadonlyMap<string, string>;

export const ITERATIONS_MAX = 20;
const MONEY = /^\d{1,9}(\.\d{1,6})?$/;

export function draftOf(plan: Plan): Draft {
  return {
    agents: plan.agents.map((one) => ({
      slug: one.slug,
      name: one.name,
      role: one.role,
      tools: (one.tools ?? []).join(", "),
      model: one.model ?? "",
      budget: one.budget_usd ?? "",
    })),
    tasks: plan.tasks.map(({ slug, goal, success_criteria, agent, ...rest }) => ({
      slug,
      goal,
      criteria: success_criteria,
      agent,
      dependsOn: rest.depends_on ?? [],
      iterations: String(rest.max_iterations),
      rest,
    })),
    membranes: (plan.membranes ?? []).map((one) => ({
      slug: one.slug,
      name: one.name,
      members: one.members ?? [],
      budget: one.budget_usd ?? "",
      shared: one.shared ?? [],
    })),
  };
}

export function planOf(draft: Draft): Plan {
  return {
    agents: draft.agents.map((one) => ({
      slug: one.slug,
      name: one.name.trim(),
      role: one.role,
      tools: words(one.tools),
      model: one.model.trim() || null,
      budget_usd: one.budget.trim() || null,
    })),
    tasks: draft.tasks.map((one) => ({
      ...one.rest,
      slug: one.slug,
      goal: one.goal.trim(),
      success_criteria: one.criteria.trim(),
      agent: one.agent,
      depends_on: [...one.dependsOn],
      max_iterations: Number(one.iterations),
    })),
    membranes: draft.membranes.map((one) => ({
      slug: one.slug,
      name: one.name.trim(),
      members: [...one.members],
      shared: [...one.shared],
      budget_usd: one.budget.trim() || null,
    })),
  };
}

function words(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

/** What this page can tell itself before the server is asked. */
export function mistakesOf(draft: Draft): Mistakes {
  const found = new Map<string, string>();
  const need = (path: string, text: string, what: string) => {
    if (text.trim() === "") found.set(path, `Say ${what}.`);
  };
  const money = (path: string, text: string) => {
    if (text.trim() !== "" && !MONEY.test(text.trim()))
      found.set(path, "An amount such as 0.60, or nothing.");
  };
  if (draft.agents.length === 0) found.set("agents", "A plan needs an agent.");
  if (draft.tasks.length === 0) found.set("tasks", "A plan needs a task.");
  draft.agents.forEach((one, index) => {
    need(`agents.${index}.name`, one.name, "what it is called");
    money(`agents.${index}.budget_usd`, one.budget);
  });
  draft.tasks.forEach((one, index) => {
    need(`tasks.${index}.goal`, one.goal, "what is to be done");
    need(`tasks.${index}.success_criteria`, one.criteria, "when it is done");
    if (!draft.agents.some((agent) => agent.slug === one.agent))
      found.set(`tasks.${index}.agent`, "Choose who works on it.");
    const iterations = Number(one.iterations);
    if (!Number.isInteger(iterations) || iterations < 1 || iterations > ITERATIONS_MAX)
      found.set(`tasks.${index}.max_iterations`, `A whole number from 1 to ${ITERATIONS_MAX}.`);
    if (waitsForItself(draft, one.slug))
      found.set(`tasks.${index}.depends_on`, "This task would wait for itself; take one of them off.");
    const hidden = hiddenFrom(draft, one);
    if (one.agent !== "" && hidden.length > 0)
      found.set(
        `tasks.${index}.depends_on`,
        `Agent ${one.agent} could not read what ${hidden.map((task) => task.slug).join(", ")} makes: put both agents into one membrane.`,
      );
  });
  draft.membranes.forEach((one, index) => {
    need(`membranes.${index}.name`, one.name, "what it is called");
    money(`membranes.${index}.budget_usd`, one.budget);
  });
  return found;
}

/** Whether the agent of a task could read what another task makes: both agents are one, or share a membrane. */
export function canRead(draft: Draft, task: DraftTask, before: DraftTask): boolean {
  if (task.agent === before.agent || draft.membranes.length === 0) return true;
  return draft.membranes.some(({ members }) =>
    [task.agent, before.agent].every((one) => members.includes(one)),
  );
}

/** Tasks that a task begins after, and whose output its agent could not read. */
function hiddenFrom(draft: Draft, task: DraftTask): readonly DraftTask[] {
  return draft.tasks.filter((one) => task.dependsOn.includes(one.slug) && !canRead(draft, task, one));
}

/** Lets a task begin after another, or no more. */
export function withDependency(draft: Draft, slug: string, before: string, isWanted: boolean): Draft {
  const tasks = draft.tasks.map((one) => {
    if (one.slug !== slug) return one;
    const others = one.dependsOn.filter((other) => other !== before);
    return { ...one, dependsOn: isWanted && before !== slug ? [...others, before] : others };
  });
  return { ...draft, tasks };
}

function waitsForItself(draft: Draft, slug: string): boolean {
  const before = new Map(draft.tasks.map((task) => [task.slug, task.dependsOn]));
  const open = [...(before.get(slug) ?? [])];
  const seen = new Set<string>();
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next === slug) return true;
    if (seen.has(next)) continue;
    seen.add(next);
    open.push(...(before.get(next) ?? []));
  }
  return false;
}

/** The server's refusal, taken apart: `…: agents.0.tools: there is no tool 'x'; tasks.1.goal: …`. */
export function refusedOf(message: string): Mistakes {
  const found = new Map<string, string>();
  const begin =
    /(?:^|[;:]\s+)(?:body\.plan\.)?((?:agents|tasks|membranes)(?:\.\d+)?(?:\.[a-z_]+)?)(?:\.\d+[a-z_.\d]*)?: /g;
  const marks = [...message.matchAll(begin)];
  marks.forEach((mark, index) => {
    const from = mark.index + mark[0].length;
    const to = marks[index + 1]?.index ?? message.length;
    found.set(mark[1] ?? "", message.slice(from, to).trim());
  });
  if (found.size === 0) found.set("", message);
  return found;
}

// Edits

/** A name for ids that nothing in the plan has. */
export function freeSlug(draft: Draft, word: string): string {
  const taken = new Set([...draft.agents, ...draft.tasks, ...draft.membranes].map((one) => one.slug));
  for (let n = 1; ; n += 1) {
    const slug = n === 1 ? word : `${word}-${n}`;
    if (!taken.has(slug)) return slug;
  }
}

export function withAgent(draft: Draft): Draft {
  const slug = freeSlug(draft, "agent");
  const agent = { slug, name: "", role: "", tools: "", model: "", budget: "" };
  return { ...draft, agents: [...draft.agents, agent] };
}

/** Its tasks stay, with nobody to work on them. */
export function withoutAgent(draft: Draft, slug: string): Draft {
  return {
    agents: draft.agents.filter((one) => one.slug !== slug),
    tasks: draft.tasks.map((one) => (one.agent === slug ? { ...one, agent: "" } : one)),
    membranes: draft.membranes.map((one) => ({
      ...one,
      members: one.members.filter((member) => member !== slug),
    })),
  };
}

export function withTask(draft: Draft): Draft {
  const task: DraftTask = {
    slug: freeSlug(draft, "task"),
    goal: "",
    criteria: "",
    agent: draft.agents[0]?.slug ?? "",
    dependsOn: [],
    iterations: "5",
    rest: { max_iterations: 5, only_checks: false },
  };
  return { ...draft, tasks: [...draft.tasks, task] };
}

export function withoutTask(draft: Draft, slug: string): Draft {
  const tasks = draft.tasks
    .filter((one) => one.slug !== slug)
    .map((one) => ({ ...one, dependsOn: one.dependsOn.filter((other) => other !== slug) }));
  return { ...draft, tasks };
}

export function withMembrane(draft: Draft): Draft {
  const membrane = {
    slug: freeSlug(draft, draft.membranes.length === 0 ? "shared" : "room"),
    name: "",
    members: draft.agents.map((one) => one.slug),
    budget: "",
    shared: [],
  };
  return { ...draft, membranes: [...draft.membranes, membrane] };
}

export function withoutMembrane(draft: Draft, slug: string): Draft {
  return { ...draft, membranes: draft.membranes.filter((one) => one.slug !== slug) };
}

/** Changes one entry by its index. */
export function changed<T>(list: readonly T[], index: number, fields: Partial<T>): readonly T[] {
  return list.map((one, at) => (at === index ? { ...one, ...fields } : one));
}
