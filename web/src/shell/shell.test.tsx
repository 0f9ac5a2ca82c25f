import { act, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { App } from "@/App";
import { eventLog } from "@/state/log";
import { resetUi, setUi, toast, useUi } from "@/state/ui";
import { expectAccessible } from "../../tests/axe";
import { churn } from "../../tests/events";
import { rowsOf } from "../../tests/fold";
import { boot, install } from "./boot";
import { href, navigate, parseRoute } from "./route";
import { builtScreens } from "./screens";

const ME = {
  name: "ada",
  role: "operator",
  tenant: "default",
  tenants: ["default"],
  csrf_token: "t",
  features: [],
  version: "0.1",
};

const TENANT = {
  id: "default",
  grants: ["tools:*"],
  budget_microusd: null,
  spent_microusd: 0,
  held_microusd: 0,
  debt_microusd: 0,
  quotas: { stored_bytes: 0, stored_bytes_max: 1, streams_max: 1, ticks_max: 1, uploads_max: 1 },
  available_microusd: null,
  allow_unknown_price: false,
  limits: [],
  rates: [],
  patterns: [],
};

const STARTED = {
  version: "0.1",
  model: "offline",
  database: "state.db",
  workspace: null,
  has_worker: true,
  upload_bytes_max: 1_000,
  models: {},
  lag: { p99_ms: 1, max_ms: 2, worst_ms: 3 },
  users: null,
};

/** A server that knows who is there, with a stored log; its stream stays open and quiet. */
const server = {
  me: { status: 200, body: ME as object },
  login: { status: 200, body: {} as object },
  stored: churn().events,
};

class QuietStream {
  readonly readyState = 1;
  onopen: (() => void) | null = null;
  onerror = null;
  onmessage: ((message: { readonly data: string }) => void) | null = null;
  constructor() {
    const first = { items: [], graph: rowsOf(server.stored) };
    queueMicrotask(() => {
      this.onopen?.();
      this.onmessage?.({ data: JSON.stringify(first) });
    });
  }
  close(): void {}
}

beforeEach(() => {
  vi.stubGlobal("EventSource", QuietStream);
  vi.stubGlobal("fetch", (url: string) => {
    const after = Number(new URL(url, "http://x").searchParams.get("after"));
    const known: Readonly<Record<string, { readonly status: number; readonly body: object }>> = {
      "/tenants/me": { status: 200, body: TENANT },
      "/ledger/costs": { status: 200, body: { items: [] } },
      "/next-prompt": { status: 200, body: { agent: "", prompt: null, why: "It has no open task." } },
      "/server": { status: 200, body: STARTED },
      "/graph": { status: 200, body: rowsOf(server.stored) },
      "/login": server.login,
      "/me": server.me,
    };
    const route = Object.keys(known).find((name) => url.includes(name));
    const answer = (route === undefined ? undefined : known[route]) ?? {
      status: 200,
      body: { items: server.stored.filter((event) => event.position > after), next: null },
    };
    return Promise.resolve(new Response(JSON.stringify(answer.body), { status: answer.status }));
  });
  server.me = { status: 200, body: ME };
  eventLog.clear();
  resetUi();
  install();
  navigate("/overview");
});

async function open(): Promise<void> {
  render(<App />);
  await act(boot);
}

test("addresses name a screen and whole ids, and come back from them", () => {
  expect(parseRoute("/")).toEqual({ screen: "goals", id: null, query: {} });
  expect(parseRoute("/chat/m1%2Fletter", "?branch=main")).toEqual({
    screen: "chat",
    id: "m1/letter",
    query: { branch: "main" },
  });
  expect(parseRoute("/chat/%E0%A4%A")).toMatchObject({ screen: "chat", id: "%E0%A4%A" });
  expect(href("chat", "m1/letter", { branch: "main" })).toBe("/chat/m1%2Fletter?branch=main");
  expect(href("goals")).toBe("/");
  expect(href("canvas", "m1")).toBe("/canvas/m1");
});

describe("signed in", () => {
  test("shows what happened, what it cost and what runs, and is accessible", async () => {
    await open();

    expect(await screen.findByRole("heading", { name: /Agents/ })).toBeTruthy();
    const bar = screen.getByRole("banner");
    await vi.waitFor(() => expect(within(bar).getByText("$0.012 / $2.000")).toBeTruthy(), {
      timeout: 20_000,
    });
    expect(within(bar).getByText("none waiting")).toBeTruthy();
    await expectAccessible();
  });

  test("the rail leads to every screen that is built and to no other", async () => {
    const user = userEvent.setup();
    await open();
    const rail = screen.getByRole("navigation", { name: "Screens" });
    const names = within(rail)
      .getAllByRole("link")
      .map((link) => link.textContent);
    expect(new Set(names)).toEqual(
      new Set(
        builtScreens()
          .filter((one) => one.inRail)
          .map((one) => one.label),
      ),
    );

    await user.click(within(rail).getByRole("link", { name: "Settings" }));
    expect(await screen.findByRole("heading", { name: "Keyboard" })).toBeTruthy();
    expect(within(rail).getByRole("link", { name: "Settings" }).getAttribute("aria-current")).toBe("page");
    expect(document.title).toBe("Settings · Artelier");
    await expectAccessible();
  });

  test("a sequence of keys leads there too, and the palette runs what is found", async () => {
    const user = userEvent.setup();
    await open();
    await user.keyboard("gs");
    expect(await screen.findByRole("heading", { name: "Keyboard" })).toBeTruthy();

    await user.keyboard("{Control>}k{/Control}");
    await user.keyboard("light{Enter}");
    expect(useUi.getState().theme).toBe("light");
    expect(document.documentElement.dataset["theme"]).toBe("light");
    expect(screen.queryByRole("dialog")).toBeNull();
  });

  test("the palette finds things, and is accessible", async () => {
    const user = userEvent.setup();
    await open();
    await screen.findByRole("heading", { name: /Agents/ });
    await user.keyboard("{Control>}k{/Control}");
    await user.keyboard("analyst");
    await expectAccessible();
    await user.keyboard("{Enter}");

    expect(useUi.getState().selection).toEqual({ kind: "agent", id: "churn/analyst" });
  });

  test("an address that leads nowhere says so", async () => {
    navigate("/nowhere");
    await open();

    expect(screen.getByText("There is no such page")).toBeTruthy();
  });

  test("a broken connection is told, and the past cannot be changed", async () => {
    await open();
    act(() => setUi({ live: "stale", travel: 3 }));

    expect(screen.getByText(/what you see is old/)).toBeTruthy();
    expect(screen.getByText(/You are looking at the past/)).toBeTruthy();
    expect(screen.getByRole("button", { name: "Pause all" }).getAttribute("aria-description")).toMatch(
      /past/,
    );
    await expectAccessible();
  });

  test("a note can be read and dismissed", async () => {
    const user = userEvent.setup();
    await open();
    act(() => toast("m1: it has ended", { tone: "bad", advice: "Retry it." }));
    await user.click(screen.getByRole("button", { name: "Dismiss" }));

    expect(useUi.getState().toasts).toEqual([]);
  });
});

describe("not signed in", () => {
  const refused = (hint: string) => ({
    status: 401,
    body: { error: { code: "not_signed_in", message: "nobody is signed in", hint } },
  });

  test("locally the way in is the link, and nothing of before stays on the screen", async () => {
    await open();
    server.me = refused("Open the link that `artelier up` printed.");
    await act(boot);

    expect(screen.getByText(/Open the link that/)).toBeTruthy();
    expect(screen.queryByRole("textbox")).toBeNull();
    expect(eventLog.position).toBe(0);
    await expectAccessible();
  });

  test("on a shared server it is a name and a password", async () => {
    server.me = refused("POST /api/v1/login signs in.");
    await open();

    expect(screen.getByLabelText("Password")).toBeTruthy();
    await expectAccessible();
  });

  test("a wrong password is told in the form, which stays", async () => {
    const user = userEvent.setup();
    server.me = refused("POST /api/v1/login signs in.");
    await open();
    server.login = {
      status: 401,
      body: { error: { code: "not_signed_in", message: "name or password is wrong", hint: null } },
    };
    await user.type(screen.getByLabelText("Name"), "ada");
    await user.type(screen.getByLabelText("Password"), "wrong");
    await user.click(screen.getByRole("button", { name: "Sign in" }));

    expect((await screen.findByText("name or password is wrong")).getAttribute("role")).toBe("alert");
    expect(screen.getByLabelText("Password")).toBeTruthy();
  });
});

describe("no server answers", () => {
  const answered = (status: number, body: object) =>
    vi.stubGlobal("fetch", () => Promise.resolve(new Response(JSON.stringify(body), { status })));

  test("the page says that it waits, and opens by itself when the server is there", async () => {
    const there = globalThis.fetch;
    vi.useFakeTimers();
    try {
      vi.stubGlobal("fetch", () => Promise.reject(new TypeError("refused")));
      await open();
      expect(screen.getByRole("heading", { name: "Waiting for the server" })).toBeTruthy();
      expect(screen.queryByRole("alert")).toBeNull();
      await act(() => vi.advanceTimersByTimeAsync(16_000));
      expect(screen.getByText(/Check that/)).toBeTruthy();

      answered(503, {}); // by a proxy before it
      await act(() => vi.advanceTimersByTimeAsync(4_000));
      expect(screen.getByRole("heading", { name: "Waiting for the server" })).toBeTruthy();

      vi.stubGlobal("fetch", there);
      await act(() => vi.advanceTimersByTimeAsync(4_000));
    } finally {
      vi.useRealTimers();
    }
    expect(useUi.getState().session).toBe("signed_in");
    expect(await screen.findByRole("navigation", { name: "Screens" })).toBeTruthy();
  });

  test("a server that is slow to say who is there is waited for in words", async () => {
    vi.useFakeTimers();
    try {
      vi.stubGlobal("fetch", () => new Promise(() => undefined));
      render(<App />);
      void boot();
      await act(() => vi.advanceTimersByTimeAsync(1_000));
      expect(screen.queryByRole("heading")).toBeNull();
      await act(() => vi.advanceTimersByTimeAsync(1_000));
      expect(screen.getByRole("heading", { name: "Waiting for the server" })).toBeTruthy();
    } finally {
      vi.useRealTimers();
    }
    await expectAccessible();
  });

  test("a refusal is said in the words of the server, and not asked for again by itself", async () => {
    answered(421, { error: { code: "wrong_host", message: "no such host here", hint: "Use its name." } });
    await open();

    expect(screen.getByRole("alert").textContent).toContain("no such host here");
    expect(screen.getByRole("alert").textContent).toContain("Use its name.");
  });
});
