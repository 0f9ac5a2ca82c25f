import { QueryClientProvider } from "@tanstack/react-query";
import { act, render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import type { Role } from "@/client/session";
import { currentRoute, navigate } from "@/shell/route";
import { eventLog } from "@/state/log";
import { resetUi, setUi, useUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import { churn, type History } from "../../../tests/events";
import { come, serveThePast } from "../../../tests/fold";
import Runs from "./screen";

const ME = {
  name: "ada",
  role: "operator" as Role,
  tenant: "default",
  tenants: ["default"],
  csrf_token: "t",
  features: [],
  version: "0.1",
};

const STEPS = {
  items: [
    { key: "begun", kind: "compute", status: "completed", requested_seq: 2, completed_seq: 2 },
    { key: "c1/decision", kind: "model", status: "completed", requested_seq: 3, completed_seq: 4 },
  ],
  next: null,
  earlier: null as number | null,
};
const EARLIER = {
  items: [{ key: "ancient", kind: "compute", status: "completed", requested_seq: 1, completed_seq: 1 }],
  next: null,
  earlier: null,
};
const COST = {
  steps: [
    {
      key: "c1/decision",
      input_tokens: 900,
      cached_input_tokens: 300,
      output_tokens: 100,
      cost_microusd: 12_000,
      price_known: true,
      estimated: false,
      suspicious: false,
    },
  ],
};

const DIFF = {
  shared: { events: 4, upto: { run: "churn/figures", seq: 4 } },
  equal_steps: 1,
  first_divergence: { key: "c2/decision", what: "request", section: "steering", a: "terse", b: "thorough" },
};

const POLICY = {
  temperature: 0.7,
  alternatives: 2,
  breadth: null,
  sources_min: 1,
  words_target: 600,
  text: "Be exact.",
};
const STEERING = {
  id: "churn/analyst/steering",
  about: "churn/analyst",
  xy: { x: 0.5, y: 0.5 },
  axes: { x: ["focused", "exploratory"], y: ["terse", "thorough"] },
  sliders: {
    budget_usd: null,
    iterations: 5,
    delegation_depth: 1,
    safety: "open",
    output_bytes: 65_536,
  },
  tools: { shell: false },
  policy: POLICY,
};

const LOST = {
  step: "c1/tool/0",
  tool: "pay_invoice",
  arguments: { to: "ana" },
  idempotency_key: "t/churn:c1/tool/0",
  requested_us: 1_700_000_000_000_000,
  unresolved_us: 1_700_000_001_000_000,
  code: "crash",
  probe_error: "RuntimeError: the bank is closed",
};

const asked: { readonly method: string; readonly url: string; readonly body: unknown }[] = [];
const DONE = { run_id: "churn/figures", status: "done", held_by: "", step: "" };
const server = { refuses: false, undone: { ...DONE, undone: [] as string[], not_undone: [] as string[] } };

function answer(url: string): object {
  if (url.includes("/steps?last=true&before=2")) return EARLIER;
  if (url.includes("/steps?last=true")) return STEPS;
  if (url.endsWith("/cost")) return COST;
  if (url.endsWith("/compensate")) return server.undone;
  if (url.includes("/diff?with=")) return DIFF;
  if (url.includes("/steering/preview")) return POLICY;
  if (url.includes("/steering/")) return STEERING;
  if (url.endsWith("/fork")) return { run_id: "churn/figures.fork-1" };
  return {
    total_cost_microusd: 50_000,
    message: null,
    unknown_outcomes: ["c1/tool/0"],
    unknown_calls: [LOST],
  };
}

beforeEach(() => {
  asked.length = 0;
  server.refuses = false;
  server.undone = { ...DONE, undone: [], not_undone: [] };
  vi.spyOn(Element.prototype, "clientHeight", "get").mockReturnValue(600);
  vi.spyOn(Element.prototype, "clientWidth", "get").mockReturnValue(800);
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    const method = init.method ?? "GET";
    asked.push({ method, url, body: typeof init.body === "string" ? JSON.parse(init.body) : null });
    const error = { code: "conflict", message: "It has ended.", hint: "Fork it." };
    return Promise.resolve(
      server.refuses && method === "POST"
        ? new Response(JSON.stringify({ error }), { status: 409 })
        : new Response(JSON.stringify(answer(url)), { status: 200 }),
    );
  });
  queryClient.clear();
  eventLog.clear();
  resetUi({ me: ME, live: "live" });
  navigate("/runs");
});

function open(id: string | null, history: History = churn()) {
  come(history.events);
  render(
    <QueryClientProvider client={queryClient}>
      <Runs id={id} />
    </QueryClientProvider>,
  );
  return userEvent.setup();
}

function posts() {
  return asked.filter((one) => one.method === "POST").map(({ url, body }) => [url, body]);
}

describe("the list", () => {
  test("is a tree with status and cost; a row leads to its run", async () => {
    const user = open(null);

    const rows = within(screen.getByRole("table", { name: "Runs" })).getAllByRole("row");
    expect(rows.map((row) => row.textContent)).toEqual([
      expect.stringContaining("Cost, with children"),
      expect.stringMatching(/^churnrunning.*\$0\.012/),
      expect.stringMatching(/figuresdone.*\$0\.012/),
    ]);
    await expectAccessible();
    await user.click(screen.getByText("figures"));
    expect(currentRoute()).toMatchObject({ screen: "runs", id: "churn/figures" });
  });

  test("is filtered by status and text, and says when nothing is like that", async () => {
    const user = open(null);
    await user.selectOptions(screen.getByRole("combobox", { name: "Status" }), "completed");
    expect(screen.getAllByRole("row")).toHaveLength(2);
    await user.type(screen.getByRole("searchbox"), "nobody");
    expect(screen.getByText("No run is like this")).toBeDefined();
  });
});

describe("one run", () => {
  test("shows its steps with tokens and cost, as they stood at the moment one looks at", async () => {
    open("churn/figures");

    const steps = await screen.findByRole("table", { name: "Steps" });
    await waitFor(() => expect(steps.textContent).toContain("900 / 100"));
    expect(steps.textContent).toContain("$0.012");
    await expectAccessible();

    const asking = eventLog.events().find((event) => event.kind === "model.requested");
    serveThePast();
    act(() => setUi({ travel: asking?.position ?? 0 }));
    const then = await screen.findByRole("table", { name: "Steps" });
    expect(then.textContent).toContain("c1/decisionmodelrunning");
    expect(screen.getByRole("table", { name: "Steps" }).textContent).not.toContain("900 / 100");
  });

  test("of a run of weeks the newest steps are shown, and earlier ones on demand", async () => {
    STEPS.earlier = 2;
    const user = open("churn/figures");
    await user.click(await screen.findByRole("button", { name: "Earlier" }));
    await waitFor(() =>
      expect(screen.getByRole("table", { name: "Steps" }).textContent).toContain("ancient"),
    );
    expect(screen.queryByRole("button", { name: "Earlier" })).toBeNull();
    await user.click(screen.getByRole("button", { name: "Newest" }));
    await waitFor(() => expect(screen.getByRole("table", { name: "Steps" }).textContent).toContain("begun"));
    STEPS.earlier = null;
  });

  test("what cannot be done to it says why, what can is asked of the server", async () => {
    const user = open("churn");
    const step = screen.getByRole("button", { name: "Step" });
    expect(step.getAttribute("aria-description")).toBe("Pause it first.");
    await user.click(step);
    await user.click(screen.getByRole("button", { name: "Pause" }));

    expect(posts()).toEqual([["/api/v1/runs/churn/pause", {}]]);
    expect(screen.getByRole("link", { name: "Export" }).getAttribute("href")).toBe(
      "/api/v1/runs/churn/export",
    );
  });

  test("cancelling is asked twice and says what it means; a refusal is told", async () => {
    const user = open("churn");
    await user.click(screen.getByRole("button", { name: "Cancel" }));
    expect(screen.getByText(/ends for good/)).toBeDefined();
    await user.type(screen.getByRole("textbox", { name: "Why (optional)" }), "wrong goal");
    server.refuses = true;
    await user.click(screen.getByRole("button", { name: "Cancel the run" }));

    await waitFor(() => expect(useUi.getState().toasts.at(-1)?.title).toBe("Cancel: It has ended."));
    expect(posts()).toEqual([["/api/v1/runs/churn/cancel", { note: "wrong goal" }]]);
    expect(screen.getByRole("dialog")).toBeDefined();
  });

  test("a limit is dollars or a whole number, and nothing else", async () => {
    const user = open("churn");
    await user.click(screen.getByRole("button", { name: "Set a limit" }));
    const field = screen.getByRole("textbox", { name: /At most/ });
    await user.type(field, "lots");
    expect(screen.getByRole("button", { name: "Set the limit" }).ariaDisabled).toBe("true");
    await user.clear(field);
    await user.type(field, "0.60");
    await user.click(screen.getByRole("button", { name: "Set the limit" }));

    await waitFor(() =>
      expect(posts()).toEqual([["/api/v1/runs/churn/limit", { unit: "usd", cap: "0.60" }]]),
    );
  });

  test("a fork takes another model and leads to the new run", async () => {
    const user = open("churn/figures");
    await user.click(screen.getByRole("button", { name: "Fork" }));
    const dialog = within(screen.getByRole("dialog"));
    const at = dialog.getByRole("textbox", { name: /After event/ });
    await user.clear(at);
    await user.type(at, "4");
    await user.selectOptions(dialog.getByRole("combobox", { name: "What is changed" }), "The model");
    expect(dialog.getByRole("button", { name: "Fork" }).ariaDisabled).toBe("true");
    await user.type(dialog.getByRole("textbox", { name: "Another model" }), "big");
    await user.click(dialog.getByRole("button", { name: "Fork" }));

    await waitFor(() => expect(currentRoute().query["with"]).toBe("churn/figures.fork-1"));
    expect(currentRoute().id).toBe("churn/figures");
    expect(posts()).toEqual([
      ["/api/v1/runs/churn%2Ffigures/fork", { at: 4, effects: "recorded", changes: { model: "big" } }],
    ]);
  });

  test("a fork takes another steering, whole, and leaves that of the agent as it is", async () => {
    const user = open("churn/figures");
    await user.click(screen.getByRole("button", { name: "Fork" }));
    const dialog = within(screen.getByRole("dialog"));
    await user.selectOptions(
      dialog.getByRole("combobox", { name: "What is changed" }),
      "The steering of its agent",
    );
    const pad = await dialog.findByRole("application", { name: "Policy bias" });
    expect(dialog.getByRole("button", { name: "Fork" }).ariaDisabled).toBe("true");
    pad.focus();
    await user.keyboard("{Shift>}{ArrowRight}{ArrowDown}{/Shift}");
    await user.tab(); // it rests
    await expectAccessible();
    await user.click(dialog.getByRole("button", { name: "Fork" }));

    const { axes, sliders, tools } = STEERING;
    const steering = { xy: { x: 0.75, y: 0.25 }, axes, sliders, tools };
    await waitFor(() =>
      expect(posts()).toEqual([
        ["/api/v1/runs/churn%2Ffigures/fork", { effects: "recorded", changes: { steering } }],
      ]),
    );
    expect(asked.filter((one) => one.method !== "GET" && one.method !== "POST")).toEqual([]);
  });

  test("a fork without an event begins where its change takes effect", async () => {
    const user = open("churn/figures");
    await user.click(screen.getByRole("button", { name: "Fork" }));
    const dialog = within(screen.getByRole("dialog"));
    await user.selectOptions(dialog.getByRole("combobox", { name: "What is changed" }), "The model");
    expect(dialog.getByRole("button", { name: "Fork" }).ariaDisabled).toBe("true");
    await user.type(dialog.getByRole("textbox", { name: "Another model" }), "big");
    await user.click(dialog.getByRole("button", { name: "Fork" }));

    await waitFor(() =>
      expect(posts()).toEqual([
        ["/api/v1/runs/churn%2Ffigures/fork", { effects: "recorded", changes: { model: "big" } }],
      ]),
    );
  });

  test("an unknown outcome is settled with a result that is JSON", async () => {
    const stuck = churn().add("run:churn", "tool.unresolved", { key: "c1/tool/0", code: "lost" });
    const user = open("churn", stuck);
    await user.click(screen.getByRole("button", { name: "Settle outcome" }));
    await user.selectOptions(
      await screen.findByRole("combobox", { name: "What became of it" }),
      "It succeeded",
    );
    expect(screen.getByText("t/churn:c1/tool/0")).toBeDefined();
    expect(screen.getByText("RuntimeError: the bank is closed")).toBeDefined();
    const field = screen.getByRole("textbox", { name: "Result, as JSON" });
    await user.type(field, "sent");
    expect(screen.getByRole("button", { name: "Settle" }).ariaDisabled).toBe("true");
    await user.clear(field);
    await user.type(field, "3");
    await user.click(screen.getByRole("button", { name: "Settle" }));

    await waitFor(() =>
      expect(posts()).toEqual([
        ["/api/v1/runs/churn/reconcile", { step: "c1/tool/0", answer: "succeeded", result: 3 }],
      ]),
    );
  });

  test("what an ended run did is undone, and what stays is told", async () => {
    server.undone = { ...DONE, undone: ["c2/tool/0", "c1/tool/0"], not_undone: ["mail"] };
    const user = open("churn/figures");
    await user.click(screen.getByRole("button", { name: "Undo" }));
    await user.type(screen.getByRole("textbox", { name: "Why (optional)" }), "wrong customer");
    await expectAccessible();
    await user.click(screen.getByRole("button", { name: "Undo it" }));

    expect(await screen.findByText("2 calls undone.")).toBeDefined();
    expect(within(screen.getByRole("list", { name: "Not undone" })).getByText("mail")).toBeDefined();
    expect(screen.queryByRole("button", { name: "Undo it" })).toBeNull();
    expect(posts()).toEqual([["/api/v1/runs/churn%2Ffigures/compensate", { note: "wrong customer" }]]);
    await expectAccessible();
  });

  test("an undoing of which nobody knows the outcome is settled, then gone on with", async () => {
    const held = { status: "unknown_outcome", held_by: "churn/figures", step: "c1/tool/0/undo" };
    server.undone = { ...DONE, ...held, undone: [], not_undone: [] };
    const user = open("churn/figures");
    await user.click(screen.getByRole("button", { name: "Undo" }));
    await user.click(screen.getByRole("button", { name: "Undo it" }));

    expect(await screen.findByRole("button", { name: "Go on undoing" })).toBeDefined();
    await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Settle outcome" }));
    expect(await screen.findByRole("combobox", { name: "What became of it" })).toBeDefined();
  });

  test("a call that was at work when its run ended is settled, and not made again", async () => {
    const user = open("churn/figures");
    await user.click(await screen.findByRole("button", { name: "Settle outcome" }));
    const answers = await screen.findByRole("combobox", { name: "What became of it" });
    expect(within(answers).queryByRole("option", { name: "Do it again" })).toBeNull();
    await user.selectOptions(answers, "It succeeded");
    await user.type(screen.getByRole("textbox", { name: "Result, as JSON" }), "7");
    await user.click(screen.getByRole("button", { name: "Settle" }));

    await waitFor(() =>
      expect(posts()).toEqual([
        ["/api/v1/runs/churn%2Ffigures/reconcile", { step: "c1/tool/0", answer: "succeeded", result: 7 }],
      ]),
    );
  });

  test("a goal reads no notes, and says where one is read", async () => {
    const user = open("churn");
    await user.click(screen.getByRole("button", { name: "Leave a note" }));
    expect(screen.queryByRole("dialog")).toBeNull();
    expect(screen.getByRole("button", { name: "Leave a note" }).ariaDisabled).toBe("true");
  });

  test("what is at work cannot be undone", () => {
    open("churn");
    expect(screen.queryByRole("button", { name: "Undo" })).toBeNull();
  });

  test("a viewer may look and export, not act", async () => {
    resetUi({ me: { ...ME, role: "viewer" }, live: "live" });
    const user = open("churn");
    for (const name of ["Pause", "Stop", "Cancel", "Fork"]) {
      await user.click(screen.getByRole("button", { name }));
    }

    expect(posts()).toEqual([]);
    expect(screen.queryByRole("dialog")).toBeNull();
  });

  test("of the past it says when it had not begun", async () => {
    serveThePast();
    come(churn().events);
    setUi({ travel: 3 });
    open("churn/figures");
    expect(await screen.findByText("This run had not begun")).toBeDefined();
  });

  test("is compared with its fork from where they part", async () => {
    const forked = churn()
      .add("run:churn/other", "run.forked", { origin: "churn/figures", at: 4 })
      .add("run:churn/other", "decision.taken", { key: "c1/decision", iteration: 1, action: "analyze" });
    const user = open("churn/figures", forked);
    await user.click(screen.getByRole("tab", { name: "Compare" }));

    expect(screen.getByText(/They share 4 events and part at place 5/)).toBeDefined();
    const parting = await screen.findByRole("region", { name: "Where they part" });
    expect(parting.textContent).toContain("First difference at step c2/decision: request in steering");
    expect(within(parting).getByText("thorough")).toBeDefined();
    expect(asked.some(({ url }) => url.endsWith("/runs/churn%2Ffigures/diff?with=churn%2Fother"))).toBe(true);
    await expectAccessible();
  });
});
