import { QueryClientProvider } from "@tanstack/react-query";
import { act, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import type { Me } from "@/client/session";
import { eventLog } from "@/state/log";
import { resetUi, select, setUi, useUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import { churn } from "../../../tests/events";
import { come, serveThePast } from "../../../tests/fold";
import Inspector from "./panel";
import { useInspector } from "./state";

const ME: Me = {
  name: "ada",
  role: "operator",
  tenant: "default",
  tenants: ["default"],
  csrf_token: "t",
  features: [],
  version: "0.1",
};
const A = "churn/analyst";
const SLIDERS = {
  budget_usd: "0.60",
  iterations: 5,
  delegation_depth: 1,
  safety: "open",
  output_bytes: 65_536,
};
const POLICY = {
  text: "Weigh 2.",
  temperature: 0.4,
  alternatives: 2,
  breadth: 8,
  sources_min: 2,
  words_target: 300,
};
const document_ = {
  xy: { x: 0.5, y: 0.5 },
  axes: { x: ["focused", "exploratory"], y: ["terse", "thorough"] },
  sliders: SLIDERS,
  tools: {},
};
const steering = () => ({
  ...document_,
  id: `${A}/steering`,
  about: A,
  version: 3,
  policy: POLICY,
  in_force: document_,
  policy_in_force: POLICY,
  from_iteration: [{ agent: A, task: "churn/figures", iteration: 2, is_begun: true }],
  changed_us: 1_790_000_000_000_000,
  changed_by: "user:ben",
});
const tool = (name: string, why_off: string | null) => ({
  name,
  risk: "low",
  side_effect: false,
  enabled: why_off === null,
  why_off,
});
const AGENT = {
  id: A,
  agent: A,
  is_assignable: true,
  runs: 1,
  last_run: "churn/figures",
  last_us: 1,
  cost_microusd: 12_000,
  name: "Analyst",
  version: 1,
  tools: [tool("query_sql", null), tool("web_fetch", "not granted to the tenant")],
  budget: { usd: 600_000, used: 203_000, left: 397_000 },
  memory: null,
};
const ref = "churn/table@1";
const TASK = {
  id: "churn/figures",
  goal: "Count it",
  success_criteria: "- Names the month",
  checks: [],
  only_checks: false,
  version: 1,
  approvals: [],
  iterations: [
    {
      iteration: 1,
      at_us: 1,
      action: "create_artifact",
      reason: "numbers agree",
      tool: null,
      decision: { action: "create_artifact" },
      step: "c1/content",
      artifact: ref,
      is_error: false,
      code: "",
      passed: true,
      void: "",
      steering: null,
      verdict: {
        summary: "3 of 3 met",
        criteria: [
          { criterion: "Names the month", met: true, missing: "", evidence: [{ ref, quote: "in May" }] },
        ],
      },
    },
  ],
};
const ARTIFACT = {
  id: "churn/table",
  kind: "report",
  version: 1,
  creator: A,
  owner: A,
  access: null,
  prices: {},
  media: "text",
  content: "It rose **in May**.",
  is_cut: false,
  size_bytes: 18,
  provenance: { run_id: "churn/figures", step: "c1/content" },
  metadata: { media: "markdown", title: "Table" },
  created_us: 1,
  written_us: 1,
};

type Answer = readonly [status: number, body: unknown];
const asked: { method: string; route: string; body: unknown }[] = [];
let routes: Record<string, () => Answer>;

function changes() {
  return asked.filter((one) => one.method !== "GET");
}

// jsdom has no layout that anything could scroll in.
Element.prototype.scrollIntoView = () => undefined;

beforeEach(() => {
  asked.length = 0;
  routes = {
    [`GET /agents/${A}`]: () => [200, AGENT],
    [`GET /steering/${A}`]: () => [200, steering()],
    [`PATCH /steering/${A}`]: () => [200, { ...steering(), version: 4 }],
    "GET /steering/preview": () => [200, { ...POLICY, text: "Weigh 3." }],
    [`GET /agents/${A}/next-prompt`]: () => [200, { agent: A, prompt: null, why: "It has no open task." }],
    "GET /runs/churn/figures/cost": () => [200, { steps: [] }],
    "GET /tasks/churn/figures": () => [200, TASK],
    "GET /artifacts/churn/table": () => [200, ARTIFACT],
    "GET /artifacts/churn/table/versions": () => [200, { items: [], next: null }],
    "GET /artifacts/churn/table/lineage": () => [200, { id: "churn/table", sources: [], derived: [] }],
    "GET /artifacts/churn/table/access": () => [
      200,
      {
        owner: A,
        creator: A,
        prices: {},
        words: ["Its owner may."],
        people: [{ action: "read", allowed: true, price: 0, reason: "" }],
      },
    ],
    "GET /membranes/churn/study": () => [
      200,
      { id: "churn/study", name: "Study", members: [A], shared: [], shared_count: 1, used_microusd: 41_000 },
    ],
    "GET /steering/churn/study": () => [200, { ...steering(), about: "churn/study" }],
    "POST /membranes/churn/study/leave": () => [200, {}],
    "POST /membranes/churn/study/unshare": () => [200, {}],
  };
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    const route = decodeURIComponent(new URL(url, "http://x").pathname).replace("/api/v1", "");
    const method = init.method ?? "GET";
    asked.push({ method, route, body: typeof init.body === "string" ? JSON.parse(init.body) : null });
    const [status, body] = routes[`${method} ${route}`]?.() ?? [404, { error: { message: `no ${route}` } }];
    return Promise.resolve(new Response(JSON.stringify(body), { status }));
  });
  queryClient.clear();
  eventLog.clear();
  come(churn().events);
  resetUi({ me: ME, session: "signed_in", live: "live" });
  useInspector.setState({
    agentTab: "steering",
    artifactTab: "content",
    membraneTab: "members",
    wanted: null,
  });
});

function open(kind: "agent" | "task" | "artifact" | "membrane" | "mission", id: string) {
  act(() => select(kind, id));
  return render(
    <QueryClientProvider client={queryClient}>
      <main>
        <Inspector />
      </main>
    </QueryClientProvider>,
  );
}

test("without a selection it teaches the next action", () => {
  render(<Inspector />);

  expect(screen.getByText(/Select an agent/)).toBeTruthy();
});

describe("steering", () => {
  test("says what the puck means, from where it counts and who changed it, and is accessible", async () => {
    open("agent", A);

    expect(await screen.findByText("Weigh 2.")).toBeTruthy();
    expect(screen.getByText("Takes effect at iteration 2 of figures.")).toBeTruthy();
    expect(screen.getByText(/Version 3 by user:ben/)).toBeTruthy();
    expect(screen.getByText("$0.600, $0.397 left")).toBeTruthy();
    const names = screen
      .getAllByRole("slider")
      .map((one) => (one as HTMLInputElement).labels?.[0]?.textContent);
    expect(names).toEqual(["Budget", "Iterations", "Delegation depth", "Safety", "Output size"]);
    await expectAccessible();
  });

  test("arrow keys that follow each other are one change, previewed while the puck moves", async () => {
    const user = userEvent.setup();
    open("agent", A);
    const pad = await screen.findByRole("application", { name: "Policy bias" });
    act(() => pad.focus());
    await user.keyboard("{ArrowRight}{ArrowRight}{Shift>}{ArrowUp}{/Shift}");

    expect(screen.getByText("exploratory 0.60 · thorough 0.75")).toBeTruthy();
    expect(await screen.findByText("Weigh 3.")).toBeTruthy();
    expect(pad.querySelector<HTMLElement>("[data-ghost]")?.style.left).toBe("50%");
    await waitFor(() => expect(changes()).toHaveLength(1), { timeout: 30_000 });
    expect(changes()[0]).toMatchObject({
      method: "PATCH",
      body: { xy: { x: 0.6, y: 0.75 }, expected_version: 3 },
    });
  });

  test("Escape puts the puck back and saves nothing", async () => {
    const user = userEvent.setup();
    open("agent", A);
    const pad = await screen.findByRole("application", { name: "Policy bias" });
    act(() => pad.focus());
    await user.keyboard("{ArrowRight}{Escape}");

    expect(screen.getByText("exploratory 0.50 · thorough 0.50")).toBeTruthy();
    act(() => pad.blur());
    expect(changes()).toEqual([]);
  });

  test("a slider that comes to rest elsewhere is saved with the version that was seen", async () => {
    open("agent", A);
    fireEvent.change(await screen.findByRole("slider", { name: "Iterations" }), { target: { value: "3" } });

    await waitFor(() => expect(changes()).toHaveLength(1), { timeout: 30_000 });
    expect(changes()[0]?.body).toEqual({ sliders: { iterations: 3 }, expected_version: 3 });
  });

  test("who was slower sees who was faster, and can put the change on top", async () => {
    const user = userEvent.setup();
    routes[`PATCH /steering/${A}`] = () => [409, { error: { code: "version_conflict", message: "changed" } }];
    open("agent", A);
    const slider = await screen.findByRole("slider", { name: "Safety" });
    routes[`GET /steering/${A}`] = () => [200, { ...steering(), version: 9, changed_by: "user:eve" }];
    fireEvent.change(slider, { target: { value: "3" } });

    const alert = await screen.findByRole("alert", {}, { timeout: 30_000 });
    await within(alert).findByText(/Version 9 by user:eve/);
    routes[`PATCH /steering/${A}`] = () => [200, { ...steering(), version: 10 }];
    await user.click(within(alert).getByRole("button", { name: "Save mine on top" }));
    await waitFor(() => expect(changes()).toHaveLength(2), { timeout: 30_000 });
    expect(changes()[1]?.body).toEqual({ sliders: { safety: "read_only" }, expected_version: 9 });
    await waitFor(() => expect(screen.queryByRole("alert")).toBeNull());
  });

  test("a viewer looks, and nothing moves", async () => {
    act(() => setUi({ me: { ...ME, role: "viewer" } }));
    open("agent", A);
    const pad = await screen.findByRole("application", { name: "Policy bias" });

    expect(pad.getAttribute("aria-disabled")).toBe("true");
    expect(screen.getAllByRole<HTMLInputElement>("slider").every((one) => one.disabled)).toBe(true);
    fireEvent.keyDown(pad, { key: "ArrowRight" });
    expect(screen.getByText("exploratory 0.50 · thorough 0.50")).toBeTruthy();
    expect(screen.getByText(/Your role is viewer/)).toBeTruthy();
  });
});

test("the tabs of an agent are all there, and each is accessible", async () => {
  const user = userEvent.setup();
  open("agent", A);
  await screen.findByText("Weigh 2.");
  const names = screen.getAllByRole("tab").map((tab) => tab.textContent);
  expect(names).toEqual(["Steering", "Task", "Tools", "Memory", "Next prompt", "Costs"]);

  const shown: Record<string, RegExp> = {
    Task: /done with evidence/,
    Tools: /not granted to the tenant/,
    Memory: /Beyond its task an agent remembers nothing/,
    "Next prompt": /Nothing left to decide/,
    Costs: /\$0.397 left of \$0.600/,
  };
  for (const [name, text] of Object.entries(shown)) {
    await user.click(screen.getByRole("tab", { name }));
    expect(await screen.findByText(text)).toBeTruthy();
    await expectAccessible();
  }
});

test("a tool is switched by steering, and one that is not granted cannot be", async () => {
  const user = userEvent.setup();
  useInspector.setState({ agentTab: "tools" });
  open("agent", A);
  await user.click(await screen.findByRole("switch", { name: "query_sql" }));

  await waitFor(() => expect(changes()).toHaveLength(1));
  expect(changes()[0]?.body).toEqual({ tools: { query_sql: false }, expected_version: 3 });
  expect(screen.getByRole<HTMLButtonElement>("switch", { name: "web_fetch" }).disabled).toBe(true);
});

test("a person accepts or rejects an output of a task that has ended", async () => {
  const user = userEvent.setup();
  const history = churn()
    .add("run:churn/figures", "task.ended", { status: "failed", reason: "stuck", outputs: ["churn/table@1"] })
    .add("run:churn/figures", "run.failed", { reason: "stuck" });
  eventLog.clear();
  come(history.events);
  const judged = [
    { output: "churn/table@1", accepted: false, by: "user:ben", at_us: 1, note: "Which year?" },
  ];
  routes["GET /tasks/churn/figures"] = () => [200, { ...TASK, judged }];
  routes["POST /tasks/churn/figures/accept"] = () => [200, TASK];
  open("task", "churn/figures");
  expect(await screen.findByText("Which year?")).toBeTruthy();

  await user.click(await screen.findByRole("button", { name: "Judge output" }));
  await user.type(screen.getByRole("textbox", { name: "Why" }), "Checked.");
  await expectAccessible();
  await user.click(screen.getByRole("button", { name: "Accept" }));

  expect(changes()).toEqual([
    {
      method: "POST",
      route: "/tasks/churn/figures/accept",
      body: { output: "churn/table@1", note: "Checked." },
    },
  ]);
});

test("evidence opens the version that it was taken from, with its words marked", async () => {
  const user = userEvent.setup();
  open("task", "churn/figures");
  await user.click(await screen.findByRole("button", { name: /in May/ }));

  expect(useUi.getState().selection).toEqual({ kind: "artifact", id: "churn/table" });
  expect((await screen.findByText("in May", { selector: "mark" })).tagName).toBe("MARK");
  expect(asked.some((one) => one.route === "/artifacts/churn/table")).toBe(true);
  await expectAccessible();
});

test("a picture that a tool has shown is seen as one", async () => {
  routes["GET /artifacts/churn/table"] = () => [
    200,
    { ...ARTIFACT, media: "bytes", content: null, is_cut: true, metadata: { type: "image/png" } },
  ];
  open("artifact", "churn/table");
  const picture = await screen.findByRole("img", { name: "Picture, 18 bytes" });
  expect(picture.getAttribute("src")).toContain("/artifacts/churn%2Ftable/content?version=");
});

test("an artifact that may not be read says so instead of failing", async () => {
  routes["GET /artifacts/churn/table"] = () => [403, { error: { code: "access_denied", message: "no" } }];
  routes["GET /artifacts/churn/table/access"] = () => [
    403,
    { error: { code: "access_denied", message: "no" } },
  ];
  open("artifact", "churn/table");

  expect(await screen.findByText("No right to read")).toBeTruthy();
});

test("a read price is asked for before anything is read", async () => {
  const user = userEvent.setup();
  routes["GET /artifacts/churn/table"] = () => [
    403,
    { error: { code: "access_denied", message: "it costs 2" } },
  ];
  routes["GET /artifacts/churn/table/access"] = () => [
    200,
    {
      owner: A,
      creator: A,
      prices: { read: 2 },
      words: [],
      people: [{ action: "read", allowed: true, price: 2, reason: "" }],
    },
  ];
  routes["POST /artifacts/churn/table/read"] = () => [200, ARTIFACT];
  open("artifact", "churn/table");
  await user.click(await screen.findByRole("button", { name: "Read for 2 scrip" }));

  expect(await screen.findByText("in May")).toBeTruthy();
  expect(changes()[0]?.body).toEqual({ version: null, price_max: 2 });
});

test("a membrane lets members go and takes artifacts back, and is accessible", async () => {
  const user = userEvent.setup();
  open("membrane", "churn/study");
  await user.click(await screen.findByRole("button", { name: `Remove ${A}` }));
  await expectAccessible();
  await user.click(screen.getByRole("tab", { name: "Shared" }));
  await user.click(screen.getByRole("button", { name: "Unshare churn/table" }));

  await waitFor(() => expect(changes()).toHaveLength(2));
  expect(changes().map((one) => [one.route, one.body])).toEqual([
    ["/membranes/churn/study/leave", { agent: A }],
    ["/membranes/churn/study/unshare", { artifact: "churn/table" }],
  ]);
  await user.click(screen.getByRole("tab", { name: "Steering" }));
  expect(await screen.findByRole("application", { name: "Policy bias" })).toBeTruthy();
  expect(await screen.findByText(/\$[\d.]+ left/)).toBeTruthy();
});

test("a goal shows its tasks, and a failed reading says what to do", async () => {
  const view = open("mission", "churn");
  expect(screen.getByRole("button", { name: "figures" })).toBeTruthy();
  await expectAccessible();
  view.unmount();

  routes["GET /tasks/churn/figures"] = () => [
    404,
    { error: { code: "not_found", message: "no task", hint: "Look again." } },
  ];
  open("task", "churn/figures");
  expect(await screen.findByText("Look again.")).toBeTruthy();
});

test("the past is looked at, not steered", async () => {
  serveThePast();
  act(() => setUi({ travel: 8 }));
  open("agent", A);

  expect(await screen.findByText("Not steered yet")).toBeTruthy();
  expect(screen.queryByRole("slider")).toBeNull();
  act(() => select("artifact", "churn/table"));
  expect(screen.getByText("Not there yet")).toBeTruthy();
});
