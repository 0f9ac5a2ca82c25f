import { QueryClientProvider } from "@tanstack/react-query";
import { act, render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import { navigate } from "@/shell/route";
import { eventLog } from "@/state/log";
import { resetUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import { churn } from "../../../tests/events";
import { come, foldAll } from "../../../tests/fold";
import { byAgent, byDay, byGoal, byModel, DAY_US, type Spent } from "./group";
import CostsScreen from "./screen";

const TODAY = Math.floor((Date.now() * 1000) / DAY_US) * DAY_US;

function spent(agent: string, model: string, cost: number, day = TODAY): Spent {
  return {
    agent,
    model,
    day_us: day,
    calls: 1,
    input_tokens: 100,
    output_tokens: 10,
    cost_microusd: cost,
  };
}

const ITEMS = [
  spent("m1/ana", "openai:m", 30_000),
  spent("m1/ana", "small", 5_000, TODAY - DAY_US),
  spent("", "", 1_000),
];
const TENANT = {
  id: "default",
  grants: [],
  budget_microusd: 100_000 as number | null,
  spent_microusd: 36_000,
  held_microusd: 4_000,
  debt_microusd: 0,
  quotas: { stored_bytes: 0, stored_bytes_max: 1, streams_max: 1, ticks_max: 1, uploads_max: 1 },
  available_microusd: 60_000 as number | null,
  allow_unknown_price: false,
  limits: [],
  rates: [],
  patterns: [],
};

const ADMIN = {
  name: "root",
  role: "admin",
  tenant: "default",
  tenants: ["default"],
  csrf_token: "t",
  features: [],
  version: "0.1.0",
} as const;

let asked: string[] = [];
let tenant = TENANT;
let status = 200;

beforeEach(() => {
  asked = [];
  tenant = TENANT;
  status = 200;
  vi.stubGlobal("fetch", (url: string) => {
    asked.push(url);
    const since = TODAY - 29 * DAY_US;
    const body =
      status !== 200
        ? { error: { code: "x", message: "The ledger is locked", hint: "Wait a moment." } }
        : url.includes("/tenants/me")
          ? tenant
          : { items: ITEMS, since_us: since, total_microusd: 36_000, is_cut: false };
    return Promise.resolve(new Response(JSON.stringify(body), { status }));
  });
  queryClient.clear();
  eventLog.clear();
  resetUi({ session: "signed_in", live: "live" });
  navigate("/costs", { replace: true });
});

function open(): void {
  render(
    <QueryClientProvider client={queryClient}>
      <CostsScreen />
    </QueryClientProvider>,
  );
}

test("groups add up to what was spent, and days without costs are zeros", () => {
  for (const group of [byAgent, byModel]) {
    expect(group(ITEMS).reduce((sum, row) => sum + row.microusd, 0)).toBe(36_000);
  }
  expect(byAgent(ITEMS).map((row) => [row.label, row.microusd, row.calls])).toEqual([
    ["ana · m1", 35_000, 2],
    ["runs of no agent", 1_000, 1],
  ]);
  const days = byDay(ITEMS, TODAY - 2 * DAY_US, TODAY);
  expect(days.map((row) => row.microusd)).toEqual([0, 5_000, 31_000]);
});

test("a goal costs what its tasks cost; the rest is told apart", () => {
  const history = churn().add("run:alone", "run.started", { loop: "x", agent: "", model: "m" });
  const graph = foldAll(history.events);
  const rows = byGoal(graph);
  expect(rows[0]).toMatchObject({ id: "churn", label: "Why did churn rise?" });
  expect(rows.reduce((sum, row) => sum + row.microusd, 0)).toBe(graph.costs.total.microusd);
});

test("the budget, what is left and every sum are told in words", async () => {
  open();
  expect(await screen.findByText("$0.060")).toBeTruthy();
  expect(screen.getByRole("meter", { name: "Budget used" }).getAttribute("aria-valuetext")).toBe(
    "$0.040 of $0.100",
  );
  expect(screen.getByText("$0.036 in 30 days")).toBeTruthy();
  expect(screen.getByRole("rowheader", { name: "ana · m1" })).toBeTruthy();
  await expectAccessible();
});

test("a debt is named, and that nothing more is paid while the budget is exceeded", async () => {
  tenant = { ...TENANT, debt_microusd: 99_000, available_microusd: -50_000 };
  open();
  const budget = await screen.findByLabelText("Budget");
  expect(budget.textContent).toMatch(/over/);
  expect(budget.textContent).toMatch(/debt/);
  expect(budget.textContent).toMatch(/pays the debt first/);
});

test("another time is asked for and kept in the address; news read the sums again", async () => {
  const user = userEvent.setup();
  open();
  await user.selectOptions(await screen.findByLabelText("Time"), "7");
  expect(window.location.search).toBe("?days=7");

  asked = [];
  act(() => come(churn().events));
  await waitFor(() => expect(asked.some((url) => url.includes("/tenants/me"))).toBe(true));
});

test("no budget says how one is set; a failure says what to do", async () => {
  tenant = { ...TENANT, budget_microusd: null, available_microusd: null };
  open();
  expect(await screen.findByText(/An admin sets one in the settings/)).toBeTruthy();
  act(() => resetUi({ me: ADMIN, session: "signed_in", live: "live" }));
  expect(screen.getByRole("link", { name: "Set one in the settings" }).getAttribute("href")).toBe(
    "/settings",
  );

  status = 409;
  queryClient.clear();
  open();
  expect(await screen.findByText("The ledger is locked")).toBeTruthy();
  expect(screen.getByText("Wait a moment.")).toBeTruthy();
});
