import { QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import { allCommands } from "@/commands/registry";
import { install } from "@/shell/boot";
import { eventLog } from "@/state/log";
import { resetUi, restored, useUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import { limitWords } from "./limits";
import Settings from "./screen";

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
  available_microusd: 1_500_000,
  allow_unknown_price: true,
  limits: [{ scope: "tenant", unit: "tokens", cap: 1000, reserved: 100, used: 200 }],
};

let asked: { method: string; url: string; body: string }[] = [];

beforeEach(() => {
  asked = [];
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    asked.push({ method: init.method ?? "GET", url, body: typeof init.body === "string" ? init.body : "" });
    const body = url.includes("/tenants/me")
      ? TENANT
      : url.includes("/ledger/costs")
        ? { items: [{ model: "openai:m" }, { model: "" }, { model: "openai:m" }] }
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
  expect(screen.getByText("200 of 1,000 used, 100 held")).toBeTruthy();
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
