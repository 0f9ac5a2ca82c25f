import { QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import { currentRoute, navigate } from "@/shell/route";
import { eventLog } from "@/state/log";
import { resetUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import SchedulesScreen from "./screen";
import { type ScheduleDetail, standing, timesOf } from "./words";

const ME = {
  name: "ada",
  role: "operator",
  tenant: "default",
  tenants: ["default"],
  csrf_token: "t",
  features: [],
  version: "1",
} as const;

const FIRING = {
  run_id: "nightly/20261122T020000Z",
  due_us: 5,
  fired_us: 6,
  by: "schedule:nightly",
  asked: false,
  missed: 2,
  status: "completed",
  reason: null,
  message: null,
  is_open: false,
  is_begun: true,
  cost_microusd: 0,
  ended_us: 7,
} as const;

function schedule(fields: Partial<ScheduleDetail> = {}): ScheduleDetail {
  return {
    id: "nightly",
    status: "active",
    reason: null,
    cron: "0 3 * * *",
    timezone: "Europe/Berlin",
    every: null,
    loop: "mission",
    goal: "Which <b>region</b> sold most?",
    model: "offline",
    workspace: null,
    budget_usd: "0.50",
    overlap: "cancel_running",
    catch_up: "one",
    max_failures: 3,
    failures: 0,
    firings: 1,
    skipped: 1,
    last_skip: "missed",
    next_due_us: 9,
    queued_us: null,
    last_run: FIRING,
    created_us: 1,
    created_by: "user:ada",
    changed_us: 1,
    runs: [FIRING],
    ...fields,
  };
}

let shown = schedule();
let asked: string[] = [];
let bodies: unknown[] = [];
let refusal: object | null = null;

beforeEach(() => {
  shown = schedule();
  asked = [];
  bodies = [];
  refusal = null;
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    if (init.method !== "GET") {
      asked.push(url);
      if (typeof init.body === "string") bodies.push(JSON.parse(init.body));
      if (refusal !== null)
        return Promise.resolve(new Response(JSON.stringify({ error: refusal }), { status: 422 }));
      if (url.endsWith("/fire")) {
        const run_id = "nightly/20261122T120000Z";
        return Promise.resolve(new Response(JSON.stringify({ id: "nightly", run_id, queued: false })));
      }
      if (init.method === "DELETE") return Promise.resolve(new Response(JSON.stringify({ id: "nightly" })));
      shown = schedule({ status: url.endsWith("/pause") ? "paused" : "active" });
    }
    const isList = init.method === "GET" && !url.includes("/schedules/");
    const body = isList ? { items: [shown], next: null } : shown;
    return Promise.resolve(new Response(JSON.stringify(body)));
  });
  queryClient.clear();
  eventLog.clear();
  resetUi({ me: ME, session: "signed_in", live: "live" });
  navigate("/schedules/nightly", { replace: true });
});

async function open(): Promise<void> {
  render(
    <QueryClientProvider client={queryClient}>
      <SchedulesScreen id="nightly" />
    </QueryClientProvider>,
  );
  await screen.findByRole("button", { name: "Fire now" });
}

test("a schedule shows what it starts, when, and how its runs went", async () => {
  await open();
  expect(screen.getByText("Which <b>region</b> sold most?")).toBeTruthy();
  expect(screen.getByText(/1 skipped, the last because nobody drove runs then/)).toBeTruthy();
  expect(screen.getByRole("link", { name: FIRING.run_id }).getAttribute("href")).toMatch(/runs/);
  expect(screen.getByText(/2 missed before/)).toBeTruthy();
  await expectAccessible();
});

test("it is paused and resumed", async () => {
  const user = userEvent.setup();
  await open();
  await user.click(screen.getByRole("button", { name: "Pause" }));
  await user.click(await screen.findByRole("button", { name: "Resume" }));
  await screen.findByRole("button", { name: "Pause" });
  expect(asked).toEqual(["/api/v1/schedules/nightly/pause", "/api/v1/schedules/nightly/resume"]);
});

test("it is fired by hand", async () => {
  const user = userEvent.setup();
  await open();
  await user.click(screen.getByRole("button", { name: "Fire now" }));
  await waitFor(() => expect(asked).toEqual(["/api/v1/schedules/nightly/fire"]));
});

test("a new one is made, and what the server refuses stands at its field", async () => {
  navigate("/schedules?do=new", { replace: true });
  const user = userEvent.setup();
  render(
    <QueryClientProvider client={queryClient}>
      <SchedulesScreen id={null} />
    </QueryClientProvider>,
  );
  const dialog = within(await screen.findByRole("dialog", { name: "New schedule" }));
  await user.click(dialog.getByRole("button", { name: "Make it" }));
  expect(asked).toEqual([]);
  expect(dialog.getByText("Say what is to be worked on.")).toBeTruthy();
  await user.type(dialog.getByRole("textbox", { name: "Name" }), "nightly");
  await user.type(dialog.getByRole("textbox", { name: "Goal" }), "Which region sold most?");
  await user.type(dialog.getByRole("textbox", { name: "Cron line" }), "61 * * * *");
  await user.clear(dialog.getByRole("textbox", { name: "Time zone" }));
  await user.type(dialog.getByRole("textbox", { name: "Time zone" }), "Europe/Berlin");
  refusal = { code: "invalid_request", message: "not a cron line: Bad minute", got: "'61 * * * *'" };
  await user.click(dialog.getByRole("button", { name: "Make it" }));
  const line = dialog.getByRole("textbox", { name: "Cron line" });
  await waitFor(() => expect(line.getAttribute("aria-invalid")).toBe("true"));
  expect(dialog.getByText(/not a cron line: Bad minute/)).toBeTruthy();
  await expectAccessible();

  refusal = null;
  await user.clear(line);
  await user.type(line, "0 3 * * *");
  await user.click(dialog.getByRole("button", { name: "Make it" }));
  await waitFor(() => expect(currentRoute().id).toBe("nightly"));
  expect(bodies.at(-1)).toEqual({
    id: "nightly",
    goal: "Which region sold most?",
    cron: "0 3 * * *",
    timezone: "Europe/Berlin",
    solo: false,
    overlap: "skip",
    budget_usd: null,
    max_failures: 0,
  });
});

test("a change leaves its times alone, unless they are changed", async () => {
  const user = userEvent.setup();
  await open();
  await user.click(screen.getByRole("button", { name: "Change" }));
  await user.selectOptions(
    screen.getByRole("combobox", { name: "While an earlier run has not ended" }),
    "wait until it has ended",
  );
  await user.click(screen.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const kept = { goal: shown.goal, budget_usd: "0.50", overlap: "queue", max_failures: 3 };
  expect(bodies).toEqual([kept]);
});

test("it is removed after a question", async () => {
  const user = userEvent.setup();
  await open();
  await user.click(screen.getByRole("button", { name: "Remove" }));
  expect(screen.getByText(/Its runs stay/)).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Remove the schedule" }));
  await waitFor(() => expect(currentRoute().id).toBeNull());
  expect(asked).toEqual(["/api/v1/schedules/nightly"]);
});

test("a viewer is told why nothing can be changed", async () => {
  resetUi({ me: { ...ME, role: "viewer" }, session: "signed_in", live: "live" });
  const user = userEvent.setup();
  await open();
  const button = screen.getByRole("button", { name: "Fire now" });
  await user.click(button);
  expect(button.getAttribute("aria-disabled")).toBe("true");
  expect(asked).toEqual([]);
});

test("times and standing in words", () => {
  expect(timesOf(schedule())).toBe("0 3 * * * (Europe/Berlin)");
  expect(timesOf(schedule({ cron: null, timezone: null, every: "30m" }))).toBe("every 30m");
  expect(standing(schedule({ status: "paused", reason: "failures" })).tone).toBe("bad");
  expect(standing(schedule({ failures: 2 })).word).toBe("active, failing");
});
