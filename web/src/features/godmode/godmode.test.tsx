import { QueryClientProvider } from "@tanstack/react-query";
import { act, cleanup, render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { leave, leftAt, setCanvasView } from "@/canvas/view";
import { queryClient } from "@/client/queries";
import { askGoal } from "@/shell/goalField";
import { eventLog } from "@/state/log";
import { resetUi, setUi, useUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import { History } from "../../../tests/events";
import { come } from "../../../tests/fold";
import {
  draftOf,
  mistakesOf,
  planOf,
  refusedOf,
  withAgent,
  withDependency,
  withoutAgent,
  withTask,
} from "./draft";
import GodMode from "./panel";

const PLAN = {
  agents: [
    {
      slug: "analyst",
      name: "Analyst",
      role: "Looks up.",
      tools: ["query_sql"],
      model: null,
      budget_usd: null,
    },
    { slug: "writer", name: "Writer", role: "", tools: [], model: null, budget_usd: "0.50" },
  ],
  tasks: [
    {
      slug: "figures",
      goal: "Find it",
      success_criteria: "- It is found.",
      agent: "analyst",
      depends_on: [],
      inputs: ["sales@1"],
      max_iterations: 5,
      checks: [{ kind: "length" as const, min: 3 }],
      only_checks: false,
    },
    {
      slug: "letter",
      goal: "Write it",
      success_criteria: "- It is written.",
      agent: "writer",
      depends_on: ["figures"],
      inputs: [],
      max_iterations: 3,
      checks: [],
      only_checks: false,
    },
  ],
  membranes: [],
};

const MISSION = {
  id: "m1",
  goal: "Why?",
  plan: PLAN,
  estimate: { calls: 24, cost_microusd: 90_000 },
  budget_microusd: 2_000_000,
};

interface Sent {
  readonly method: string;
  readonly url: string;
  readonly body: unknown;
}

const sent: Sent[] = [];
const server = { launch: { status: 200, body: {} as unknown }, plan: PLAN as unknown };

beforeEach(() => {
  sent.length = 0;
  sessionStorage.clear();
  server.plan = PLAN;
  server.launch = { status: 200, body: {} };
  eventLog.clear();
  queryClient.clear();
  resetUi({
    live: "live",
    me: {
      name: "ada",
      role: "operator",
      tenant: "t",
      tenants: ["t"],
      csrf_token: "c",
      features: [],
      version: "0",
    },
  });
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    const body = typeof init.body === "string" ? (JSON.parse(init.body) as unknown) : undefined;
    sent.push({ method: init.method ?? "GET", url, body });
    const answer = url.endsWith("/god-mode/plan")
      ? { status: 202, body: { mission: "m1", status: "running" } }
      : url.endsWith("/launch")
        ? server.launch
        : url.endsWith("/server/tools")
          ? { status: 200, body: { items: [{ name: "query_sql" }, { name: "x" }], next: null } }
          : { status: 200, body: { ...MISSION, plan: server.plan } };
    return Promise.resolve(new Response(JSON.stringify(answer.body), { status: answer.status }));
  });
});

function show() {
  return render(
    <QueryClientProvider client={queryClient}>
      <GodMode />
    </QueryClientProvider>,
  );
}

const begun = () =>
  new History().add("run:m1", "run.started", { loop: "mission", model: "x" }, { texts: { goal: "Why?" } });
const planned = () =>
  begun()
    .add("run:m1", "mission.planned", { key: "planned", calls: 24, cost: 90_000 })
    .add("run:m1", "approval.requested", { key: "launch", question: "b:q" }, { texts: { question: "{}" } });

async function openDialog() {
  const user = userEvent.setup();
  show();
  await user.type(screen.getByLabelText("Goal"), "Why?");
  await user.click(screen.getByRole("button", { name: "Plan" }));
  act(() => come(planned().events));
  await screen.findByText(/calls of models/);
  return { user, dialog: screen.getByRole("dialog", { name: "Plan" }) };
}

test("a goal goes with its model, budget and folder, and a budget that is none is not sent", async () => {
  const user = userEvent.setup();
  show();
  await user.type(screen.getByLabelText("Goal"), "Why?");
  const opener = screen.getByRole("button", { name: "Model, budget, folder and files of the goal" });
  await user.click(opener);
  const options = screen.getByRole("group", { name: "How the goal is worked on" });
  await user.type(within(options).getByLabelText("Model"), "openai:gpt-5-mini");
  await user.type(within(options).getByLabelText("Budget in USD"), "lots");
  await user.click(within(options).getByRole("switch"));
  await user.keyboard("{Escape}");
  expect(screen.queryByRole("group", { name: "How the goal is worked on" })).toBeNull();
  await user.click(screen.getByRole("button", { name: "Plan" }));
  expect(sent.filter((one) => one.method === "POST")).toEqual([]);
  const budget = await screen.findByLabelText("Budget in USD");
  screen.getByText(/Write dollars/);
  await expectAccessible();
  await user.upload(
    screen.getByLabelText("Files that go with the goal"),
    new File(["a,b"], "sales.csv", { type: "text/csv" }),
  );
  screen.getByText("sales.csv");
  await user.clear(budget);
  await user.type(budget, "0.50{Enter}");
  await waitFor(() => expect(sent.filter((one) => one.method === "POST")).toHaveLength(1));
  expect(sent.filter((one) => one.method === "POST")).toEqual([
    {
      method: "POST",
      url: "/api/v1/god-mode/plan",
      body: {
        goal: "Why?",
        model: "openai:gpt-5-mini",
        budget_usd: "0.50",
        at_most: true,
        attachments: [`data:text/csv;base64,${btoa("a,b")}`],
      },
    },
  ]);
  await waitFor(() => expect(screen.queryByLabelText("Budget in USD")).toBeNull());
});

test("what a goal that is blocked asks again stands in the bar, with the file that it lacked", () => {
  show();
  act(() => askGoal("Does rain matter?", [new File(["a,b"], "rain.csv")]));

  expect(screen.getByLabelText("Goal")).toHaveProperty("value", "Does rain matter?");
  screen.getByText("with rain.csv");
});

test("a plan comes back from its draft as it was, with what the dialog does not edit", () => {
  expect(planOf(draftOf(PLAN))).toEqual(PLAN);
});

test("mistakes stand at the field that they are about", () => {
  const draft = withTask(withAgent(draftOf(PLAN)));
  const circle = {
    ...draft,
    tasks: draft.tasks.map((one) =>
      one.slug === "figures" ? { ...one, dependsOn: ["letter"], iterations: "0" } : one,
    ),
  };

  expect([...mistakesOf(draftOf(PLAN))]).toEqual([]);
  expect([...mistakesOf(circle).keys()].sort()).toEqual([
    "agents.2.name",
    "tasks.0.depends_on",
    "tasks.0.max_iterations",
    "tasks.1.depends_on",
    "tasks.2.goal",
    "tasks.2.success_criteria",
  ]);
  expect(mistakesOf(withoutAgent(draftOf(PLAN), "writer")).get("tasks.1.agent")).toMatch(/who works/);
});

test("the server's refusal is taken apart by field", () => {
  const own = refusedOf(
    "this plan cannot be launched: agents.0.tools: there is no tool 'x' (there are: a, b); tasks.1.checks.0.tool: there is no tool 'y'",
  );
  const form = refusedOf(
    "the request does not fit: body.plan.agents.0.name: too short; body.plan.tasks.1.goal: missing",
  );

  expect(own.get("agents.0.tools")).toBe("there is no tool 'x' (there are: a, b)");
  expect(own.get("tasks.1.checks")).toBe("there is no tool 'y'");
  expect(Object.fromEntries(form)).toEqual({ "agents.0.name": "too short", "tasks.1.goal": "missing" });
  expect(refusedOf("it has ended").get("")).toBe("it has ended");
});

test("a goal becomes a plan that is shown when it is ready, and launched as it is", async () => {
  const { user, dialog } = await openDialog();

  expect(sent[0]).toMatchObject({ method: "POST", body: { goal: "Why?" } });
  expect(within(dialog).getByText("$0.090")).toBeTruthy();
  expect(within(dialog).getByText("$2.000")).toBeTruthy();
  await expectAccessible();
  await user.click(within(dialog).getByRole("button", { name: "Launch" }));

  const posted = sent.filter((one) => one.method === "POST");
  expect(posted.at(-1)).toMatchObject({ url: "/api/v1/god-mode/m1/launch", body: {} });
  expect(screen.queryByRole("dialog")).toBeNull();
});

test("what was launched is brought into view, wherever one looked before", async () => {
  const { user, dialog } = await openDialog();
  const followNewest = vi.fn();
  const nothing = () => undefined;
  setCanvasView({
    followNewest,
    zoomBy: nothing,
    fit: nothing,
    panBy: nothing,
    show: nothing,
    showBox: nothing,
    focusSearch: nothing,
  });
  leave({ at: { x: 900, y: 0, zoom: 1 }, size: { width: 800, height: 600 }, mission: "" });
  act(() => setUi({ mission: "an-older-goal" }));

  await user.click(within(dialog).getByRole("button", { name: "Launch" }));

  expect(useUi.getState().mission).toBe("m1");
  expect(followNewest).toHaveBeenCalledOnce();
  expect(leftAt("")).toBeNull();
  setCanvasView(null);
});

test("while it is made the bar says what happens", () => {
  show();
  act(() => come(begun().add("run:m1", "model.requested", { key: "plan", model: "x" }).events));

  expect(screen.getByText("Planning: asks x")).toBeTruthy();
});

test("an edited plan goes with the launch; what is refused stands at its field and nothing is lost", async () => {
  const { user, dialog } = await openDialog();
  const analyst = within(dialog).getByRole("group", { name: "Agent analyst" });
  server.launch = {
    status: 422,
    body: { error: { code: "invalid_request", message: "agents.0.tools: there is no tool 'x'" } },
  };
  await user.click(within(analyst).getByText("Tools: query_sql"));
  await user.click(within(analyst).getByRole("checkbox", { name: "query_sql" }));
  await user.click(await within(analyst).findByRole("checkbox", { name: "x" }));
  expect(within(dialog).getByText(/you have changed it since/)).toBeTruthy();
  await user.click(within(dialog).getByRole("button", { name: "Launch" }));

  expect(await within(analyst).findByText("there is no tool 'x'")).toBeTruthy();
  expect(sent.at(-1)?.body).toMatchObject({ plan: { agents: [{ tools: ["x"] }, {}] } });
  expect(within(analyst).getByRole("checkbox", { name: "x" })).toHaveProperty("checked", true);
});

test("what this page can tell itself is told without asking the server", async () => {
  const { user, dialog } = await openDialog();
  await user.clear(
    within(within(dialog).getByRole("group", { name: "Task figures" })).getByLabelText("What is to be done"),
  );
  const before = sent.length;
  await user.click(within(dialog).getByRole("button", { name: "Launch" }));

  expect(within(dialog).getByText("Say what is to be done.")).toBeTruthy();
  expect(sent).toHaveLength(before);
  const summary = within(dialog).getByRole("alert");
  expect(document.activeElement).toBe(summary);
  expect(summary.textContent).toContain("Not launched: 1 field to change.");
  await expectAccessible();

  await user.click(within(summary).getByRole("button", { name: /^figures, goal/ }));
  expect(document.activeElement).toBe(
    within(within(dialog).getByRole("group", { name: "Task figures" })).getByLabelText("What is to be done"),
  );
  await user.keyboard("Find it again");
  expect(within(dialog).queryByRole("alert")).toBeNull();
});

test("an agent that could not read its input is a mistake before the launch, and the line says so", () => {
  const room = (slug: string, members: string[]) => ({
    slug,
    name: slug,
    members,
    shared: [],
    budget_usd: null,
  });
  const apart = draftOf({ ...PLAN, membranes: [room("one", ["analyst"]), room("two", ["writer"])] });
  const together = draftOf({
    ...PLAN,
    membranes: [room("one", ["analyst"]), room("all", ["writer", "analyst"])],
  });

  expect(mistakesOf(apart).get("tasks.1.depends_on")).toContain("could not read what figures makes");
  expect([mistakesOf(together).size, mistakesOf(draftOf(PLAN)).size]).toEqual([0, 0]);
  expect(mistakesOf(withDependency(apart, "letter", "figures", false)).size).toBe(0);
});

test("a line of the graph is a dependency, and none leads to where it began", () => {
  const draft = draftOf(PLAN);
  const tasks = (of: typeof draft) => of.tasks.map((one) => one.dependsOn);

  expect(tasks(withDependency(draft, "figures", "letter", true))).toEqual([["letter"], ["figures"]]);
  expect(tasks(withDependency(draft, "letter", "figures", true))).toEqual([[], ["figures"]]);
  expect(tasks(withDependency(draft, "letter", "figures", false))).toEqual([[], []]);
  expect(tasks(withDependency(draft, "letter", "letter", true))).toEqual([[], ["figures"]]);
});

/** As a reload does: the page begins anew, and the person goes to the plan again. */
async function reopened(at_us = 1, plan = "m1") {
  cleanup();
  queryClient.clear();
  act(() => setUi({ plan: "" }));
  if (at_us > 1) {
    const again = new History().add("run:m1", "mission.planned", { key: "planned", calls: 3, cost: 1 });
    act(() => come(again.events.map((one) => ({ ...one, position: 90, at_us }))));
  }
  show();
  act(() => setUi((state) => ({ plan: state.plan || plan })));
  await screen.findByText(/calls of models/);
  return screen.getByRole("dialog", { name: "Plan" });
}

const nameOf = (dialog: HTMLElement) =>
  within(within(dialog).getByRole("group", { name: "Agent analyst" })).getByLabelText<HTMLInputElement>(
    "Name",
  );

describe("a plan that is being edited", () => {
  test("is as it was after a reload, says so, and can be taken as it was proposed", async () => {
    const { user, dialog } = await openDialog();
    await user.type(nameOf(dialog), " Ada");
    const again = await reopened(1, "");
    expect(nameOf(again).value).toBe("Analyst Ada");
    expect(within(again).getByRole("status").textContent).toMatch(/shown with your changes/);
    await expectAccessible();
    await user.click(within(again).getByRole("button", { name: "Take it as proposed" }));
    expect(nameOf(again).value).toBe("Analyst");
    expect(within(await reopened()).queryByRole("status")).toBeNull();
  });

  test("stays closed after a reload where it was closed, with the changes in it", async () => {
    const { user, dialog } = await openDialog();
    await user.type(nameOf(dialog), " Ada");
    await user.click(within(dialog).getByRole("button", { name: "Close" }));
    cleanup();
    show();
    expect(useUi.getState().plan).toBe("");
    expect(nameOf(await reopened()).value).toBe("Analyst Ada");
  });

  test("is gone where the plan was made anew, and the page says so, once", async () => {
    const { user, dialog } = await openDialog();
    await user.type(nameOf(dialog), " Ada");
    server.plan = { ...PLAN, agents: [{ ...PLAN.agents[0], name: "Searcher" }, PLAN.agents[1]] };
    const again = await reopened(5_000_000);
    expect(nameOf(again).value).toBe("Searcher");
    expect(within(again).getByRole("status").textContent).toMatch(/made anew/);
    expect(within(await reopened()).queryByRole("status")).toBeNull();
  });

  test("is shown to nobody else, and leaves with them", async () => {
    const { user, dialog } = await openDialog();
    await user.type(nameOf(dialog), " Ada");
    const me = useUi.getState().me;
    if (me === null) throw new Error("nobody is there");
    act(() => setUi({ me: { ...me, tenant: "other" } }));
    expect(nameOf(await reopened()).value).toBe("Analyst");
    act(() => setUi({ me }));
    expect(nameOf(await reopened()).value).toBe("Analyst Ada");
    act(() => setUi({ me: { ...me, name: "bob" } }));
    expect(nameOf(await reopened()).value).toBe("Analyst");
    expect(Object.keys(sessionStorage)).toEqual([]);
  });

  test("is forgotten when it is launched, and what is kept in another form is not taken", async () => {
    const { user, dialog } = await openDialog();
    await user.type(nameOf(dialog), " Ada");
    const [key = ""] = Object.keys(sessionStorage);
    const kept = JSON.parse(sessionStorage.getItem(key) ?? "") as {
      base: string;
      draft: { agents: unknown };
    };
    sessionStorage.setItem(key, JSON.stringify({ ...kept, draft: { ...kept.draft, agents: [{ name: 7 }] } }));
    const again = await reopened();
    expect(nameOf(again).value).toBe("Analyst");
    await user.type(nameOf(again), "s");
    expect(Object.keys(sessionStorage)).toEqual([key]);
    await user.click(within(again).getByRole("button", { name: "Launch" }));
    await waitFor(() => expect(Object.keys(sessionStorage)).toEqual([]));
  });
});

test("a discarded plan is cancelled", async () => {
  const { user, dialog } = await openDialog();
  await user.click(within(dialog).getByRole("button", { name: "Discard" }));

  expect(sent.at(-1)).toMatchObject({ url: "/api/v1/runs/m1/cancel" });
  expect(screen.queryByRole("dialog")).toBeNull();
});

test("a plan that cannot be made is told, and a viewer cannot ask for one", () => {
  show();
  act(() => {
    setUi({ plan: "m1" });
    come(
      begun().add("run:m1", "run.failed", { reason: "plan_invalid" }, { texts: { message: "no agents" } })
        .events,
    );
  });
  expect(useUi.getState().toasts[0]).toMatchObject({ title: "No plan: Why?", advice: "no agents" });

  act(() => setUi((state) => ({ me: state.me && { ...state.me, role: "viewer" } })));
  expect(screen.getByLabelText("Goal")).toHaveProperty("disabled", true);
});
