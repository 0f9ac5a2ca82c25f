import { QueryClientProvider } from "@tanstack/react-query";
import { act, render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import { allCommands } from "@/commands/registry";
import { install } from "@/shell/boot";
import { eventLog } from "@/state/log";
import { resetUi, restored, useUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import { keyWords } from "./keyWords";
import { limitWords } from "./limits";
import Settings from "./screen";
import { budgetError, changeOf, draftOf } from "./tenantDraft";

const ME = {
  name: "ada",
  role: "viewer",
  tenant: "default",
  tenants: ["default", "other"],
  csrf_token: "t",
  features: [],
  version: "0.1.0",
} as const;

const TENANT = {
  id: "default",
  grants: ["tools:read_file"],
  budget_microusd: 2_000_000,
  spent_microusd: 500_000,
  held_microusd: 0,
  debt_microusd: 0,
  quotas: { stored_bytes: 0, stored_bytes_max: 1, streams_max: 1, ticks_max: 1, uploads_max: 1 },
  available_microusd: 1_500_000,
  allow_unknown_price: true,
  limits: [{ scope: "tenant", unit: "tokens", cap: 1000, reserved: 100, used: 200 }],
  rates: [
    { name: "openai", requests: 60, tokens: 90_000 },
    { name: "*", requests: 200, tokens: null },
  ],
  patterns: ["EMPLOYEE"],
};

const SERVER = {
  version: "0.1.0",
  model: "openai:m",
  database: "state.db",
  workspace: "sales",
  has_worker: false,
  upload_bytes_max: 64 * 1024 * 1024,
  models: { openai: true, groq: false, anthropic: false },
  lag: { p99_ms: 3, max_ms: 41, worst_ms: 50 },
  users: null as null | { name: string; role: string; tenants: string[] }[],
};

const PREVIEW = {
  tenant: "default",
  whole: false,
  keys: 1,
  contents: 7,
  size_bytes: 1200,
  values: 2,
  runs: ["r17"],
  again: false,
  cleaned: false,
  not_reached: ["exports", "backups", "reports"],
  token: "shown",
  until_us: 1,
};

let asked: { method: string; url: string; body: string }[] = [];

beforeEach(() => {
  asked = [];
  SERVER.users = null;
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    asked.push({ method: init.method ?? "GET", url, body: typeof init.body === "string" ? init.body : "" });
    const body = url.includes("/erasures")
      ? PREVIEW
      : url.includes("/tenants/me")
        ? TENANT
        : url.includes("/server")
          ? SERVER
          : url.includes("/me")
            ? ME
            : { items: [], next: null };
    return Promise.resolve(new Response(JSON.stringify(body)));
  });
  queryClient.clear();
  eventLog.clear();
  resetUi({ me: ME, session: "signed_in", live: "live" });
  install();
});

function open(): void {
  render(
    <QueryClientProvider client={queryClient}>
      <Settings />
    </QueryClientProvider>,
  );
}

test("what the tenant may do and spend is told in words, and the page is accessible", async () => {
  open();
  expect(await screen.findByText("tools:read_file")).toBeTruthy();
  expect(screen.getByText("$2.000, $1.500 left")).toBeTruthy();
  expect(screen.getByText("41 ms")).toBeTruthy();
  expect(screen.getByText("200 of 1,000 used, 100 held")).toBeTruthy();
  expect(screen.getByText("60 requests and 90,000 tokens in any minute")).toBeTruthy();
  expect(screen.getByText("Speed of all models")).toBeTruthy();
  expect(screen.getByText("200 requests in any minute")).toBeTruthy();
  expect(screen.getByText("EMPLOYEE")).toBeTruthy();
  expect(screen.getByText(/models without a known price may be called/)).toBeTruthy();
  expect(await screen.findByText("openai:m")).toBeTruthy();
  await expectAccessible();
});

test("theme and motion change the page at once and are kept", async () => {
  const user = userEvent.setup();
  open();
  await user.selectOptions(screen.getByLabelText("Theme"), "light");
  await user.selectOptions(screen.getByLabelText("Motion"), "reduced");
  expect(document.documentElement.dataset).toMatchObject({ theme: "light", motion: "reduced" });
  expect(restored(localStorage.getItem("artelier.ui"))).toMatchObject({ theme: "light", motion: "reduced" });
  expect(restored('{"motion":"wild"}')).not.toHaveProperty("motion");

  await user.selectOptions(screen.getByLabelText("Motion"), "system");
  expect(document.documentElement.dataset["motion"]).toBeUndefined();
});

test("another tenant is chosen on the server", async () => {
  const user = userEvent.setup();
  open();
  await user.selectOptions(screen.getByLabelText("Work for another tenant"), "other");
  await waitFor(() =>
    expect(asked.find((one) => one.method === "PATCH")).toMatchObject({
      url: "/api/v1/me",
      body: '{"tenant":"other"}',
    }),
  );
  expect(useUi.getState().toasts).toEqual([]);
});

test("every shortcut that there is stands in the list", () => {
  open();
  const keys = within(screen.getByRole("region", { name: "Keyboard" }));
  const withKeys = allCommands.filter((command) => command.shortcut !== undefined);
  for (const command of withKeys) expect(keys.getByText(command.label)).toBeTruthy();
});

test("limits are told in their units", () => {
  const limit = { scope: "tenant", unit: "usd", cap: null, reserved: 0, used: 1_500_000 };
  expect(limitWords(limit)).toEqual({ name: "money", words: "$1.500 used, without a limit" });
  expect(limitWords({ ...limit, unit: "ms", cap: 60_000, used: 1500 }).words).toBe("2 s of 60 s used");
});

test("how the server was started is told without a path; a viewer changes nothing", async () => {
  open();
  const server = within(screen.getByRole("region", { name: "Server" }));
  expect(await server.findByText("state.db")).toBeTruthy();
  expect(server.getByText("sales")).toBeTruthy();
  expect(server.getByText("openai has a key; none for anthropic, groq")).toBeTruthy();
  expect(server.getByText("this server drives no runs; a worker must")).toBeTruthy();
  expect(screen.getByText(/An admin of the tenant changes them here/)).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Change budget and grants" })).toBeNull();
  expect(screen.queryByRole("region", { name: /Users/ })).toBeNull();
});

test("an admin changes what differs and nothing else, and sees the users", async () => {
  resetUi({ me: { ...ME, role: "admin" }, session: "signed_in", live: "live" });
  SERVER.users = [{ name: "vic", role: "viewer", tenants: ["default"] }];
  const user = userEvent.setup();
  open();
  const budget = await screen.findByLabelText("Budget in dollars");
  const button = () => screen.getByRole("button", { name: "Change budget and grants" });
  expect(budget).toHaveProperty("value", "2.00");
  expect(button().getAttribute("aria-description")).toBe("Nothing is changed yet.");
  expect(await screen.findByRole("rowheader", { name: "vic" })).toBeTruthy();

  await user.clear(budget);
  await user.type(budget, "much");
  await user.click(button());
  expect(button().getAttribute("aria-description")).toMatch(/An amount such as 5.00/);
  await expectAccessible();

  await user.clear(budget);
  await user.click(button());
  const changes = () => asked.filter((one) => one.method === "PATCH");
  await waitFor(() => expect(changes()).toHaveLength(1));
  expect(changes()[0]).toMatchObject({ url: "/api/v1/tenants/me", body: '{"budget_usd":null}' });
  await user.type(screen.getByLabelText("Grants, one a line"), "\nmodels:*");
  await user.click(button());
  await waitFor(() => expect(changes()).toHaveLength(2));
  expect(JSON.parse(changes()[1]?.body ?? "")).toMatchObject({ grants: ["models:*", "tools:read_file"] });
});

test.each(["light", "dark"] as const)(
  "an admin sees what would be erased before it is (%s)",
  async (theme) => {
    resetUi({ me: { ...ME, role: "admin" }, session: "signed_in", live: "live", theme });
    document.documentElement.dataset["theme"] = theme;
    const user = userEvent.setup();
    open();
    const card = within(await screen.findByRole("region", { name: /Erase/ }));
    const look = card.getByRole("button", { name: "See what would go" });
    expect(look.getAttribute("aria-description")).toBe("Say whose data it is.");
    await user.type(card.getByLabelText("Subject"), " customer-17 ");
    await user.click(look);

    const dialog = within(await screen.findByRole("dialog", { name: "Erase customer-17?" }));
    expect(dialog.getByText("7 contents, 2 values (1,200 bytes)")).toBeTruthy();
    expect(dialog.getByText("r17")).toBeTruthy();
    await expectAccessible();
    const posts = () => asked.filter((one) => one.method === "POST");
    expect(posts()).toMatchObject([{ url: "/api/v1/erasures/preview", body: '{"subject":"customer-17"}' }]);
    await user.click(dialog.getByRole("button", { name: "Cancel" }));
    expect(posts()).toHaveLength(1);

    await user.click(look);
    await user.click(await screen.findByRole("button", { name: "Erase for good" }));
    await waitFor(() => expect(posts()).toHaveLength(3));
    expect(posts()[2]).toMatchObject({
      url: "/api/v1/erasures",
      body: '{"subject":"customer-17","token":"shown"}',
    });
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  },
);

test("everything of a tenant is erased only by choosing that; others than admins see nothing of it", async () => {
  const user = userEvent.setup();
  open();
  await screen.findByText("tools:read_file");
  expect(screen.queryByRole("region", { name: /Erase/ })).toBeNull();

  act(() => resetUi({ me: { ...ME, role: "admin" }, session: "signed_in", live: "live" }));
  await user.selectOptions(await screen.findByLabelText("What"), "all");
  await user.click(screen.getByRole("button", { name: "See what would go" }));
  expect(await screen.findByRole("dialog", { name: "Erase everything of default?" })).toBeTruthy();
  expect(asked.at(-1)).toMatchObject({ url: "/api/v1/erasures/preview", body: '{"subject":null}' });
});

test("an amount is sent as it was written, and only what differs is a change", () => {
  const tenant = { ...TENANT, budget_microusd: 1_230_000 };
  const draft = draftOf(tenant);
  expect(draft).toEqual({ budget: "1.23", grants: "tools:read_file" });
  expect(changeOf(tenant, draft)).toEqual({});
  expect(changeOf(tenant, { ...draft, budget: " 1.230 " })).toEqual({});
  expect(changeOf(tenant, { budget: "0.000001", grants: "b\n\n a \nb" })).toEqual({
    budget_usd: "0.000001",
    grants: ["a", "b"],
  });
  for (const wrong of ["-1", "1e3", "1,5", ".5", "0.0000001"]) expect(budgetError(wrong)).toBeTruthy();
  expect(keyWords({ groq: false })).toBe("no provider has a key");
});
