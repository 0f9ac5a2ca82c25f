import { QueryClientProvider } from "@tanstack/react-query";
import { act, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import type { Role } from "@/client/session";
import { runCommand } from "@/commands/registry";
import { eventLog, shownGraph } from "@/state/log";
import { resetUi, useUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import { churn, History } from "../../../tests/events";
import { come, serveThePast } from "../../../tests/fold";
import { INITIAL_CONSOLE, setConsole, useConsole } from "./consoleStore";
import Console from "./panel";

const MANIFEST = {
  run_id: "churn/figures",
  step: "c1/decision",
  model: "m",
  params: { temperature: 0.4 },
  has_tools: false,
  tokens: 300,
  cache_boundary: 1,
  sections: [
    section("agent", 200, { source: ["churn/analyst@1"], reason: "fixed", is_cached: true }),
    section("now", 100, { reason: "made anew for this step", trust: "untrusted" }),
  ],
  dropped: [{ tag: "handbook", why: "no right to read", tokens: 0 }],
  scrubbed: {},
  inclusion_prices: [],
  request: "h:1",
};

function section(tag: string, tokens: number, rest: object) {
  const plain = { source: [], reason: "", stability: "fixed", trust: "trusted", cut: "" };
  return { tag, tokens, ...plain, is_cached: false, first_message: 0, messages: 1, ...rest };
}

const PROMPT = '{"messages":[{"content":"Ünder <b>no</b> circumstances","role":"system"}],"model":"m"}';
const asked: { readonly url: string; readonly body: unknown }[] = [];

const ME = {
  name: "ada",
  role: "operator" as Role,
  tenant: "default",
  tenants: ["default"],
  csrf_token: "t",
  features: [],
  version: "0.1",
};

function answer(url: string): string {
  if (url.includes("/prompt/diff"))
    return JSON.stringify({
      a: "c1/decision",
      b: "c2/decision",
      shared_tokens: 200,
      previous_tokens: 220,
      broken_by: "policy",
      why: "it changed",
      parts: [{ tag: "policy", change: "changed" }],
      diff: "-old\n+new",
    });
  if (url.includes("/prompt")) return PROMPT;
  if (url.includes("/manifest")) return JSON.stringify(MANIFEST);
  if (url.includes("/ledger/totals"))
    return JSON.stringify({
      items: [{ space: "main", asset: "usd", accounts: 3, sum: 0, issued: 0 }],
      conserved: true,
    });
  if (url.includes("/ledger/accounts"))
    return JSON.stringify({
      items: [{ space: "main", account: "spent:m", asset: "usd", balance: 12_000 }],
      next: null,
    });
  return JSON.stringify({ run_id: "churn/figures.fork-1" });
}

beforeEach(() => {
  asked.length = 0;
  // jsdom has no layout; lists that mount what is in sight need to know how much that is.
  vi.spyOn(Element.prototype, "clientHeight", "get").mockReturnValue(600);
  vi.spyOn(Element.prototype, "clientWidth", "get").mockReturnValue(800);
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    asked.push({ url, body: typeof init.body === "string" ? JSON.parse(init.body) : null });
    return Promise.resolve(new Response(answer(url), { status: 200 }));
  });
  queryClient.clear();
  eventLog.clear();
  resetUi({ me: ME, live: "live" });
  setConsole(INITIAL_CONSOLE);
});

async function open(tab: string, history = churn()) {
  come(history.events);
  const user = userEvent.setup();
  render(
    <QueryClientProvider client={queryClient}>
      <Console />
    </QueryClientProvider>,
  );
  await user.click(screen.getByRole("tab", { name: tab }));
  return user;
}

describe("the live stream", () => {
  test("shows decision, money and artifact of an iteration, and teaches where there is nothing", async () => {
    await open("Live stream", new History());
    expect(screen.getByText("Nothing has happened yet")).toBeDefined();

    act(() => come(churn().events));

    const events = await screen.findByRole("listbox", { name: "Events" });
    expect(within(events).getAllByRole("option").length).toBeGreaterThan(5);
    await expectAccessible();
  });

  test("ten thousand events mount only those in sight, and are filtered by text", async () => {
    const long = churn();
    for (let n = 0; n < 10_000; n += 1)
      long.add("run:churn", "note.injected", {}, { texts: { text: `note ${n}` } });
    const user = await open("Live stream", long);
    const events = screen.getByRole("listbox", { name: "Events" });

    const mounted = within(events).getAllByRole("option");
    expect(mounted.length).toBeLessThan(60);
    expect(Number(mounted[0]?.getAttribute("aria-setsize"))).toBeGreaterThan(10_000);

    await user.type(screen.getByRole("searchbox", { name: "Filter by text" }), "note 9999");
    await waitFor(() => expect(within(events).getAllByRole("option")).toHaveLength(1));
  });

  test("paused, it stands still and counts what waits; following, it shows it", async () => {
    const user = await open("Live stream");
    await act(() => runCommand("console.pause"));
    const late = churn().add("run:churn", "note.injected", {}, { texts: { text: "look here" } });
    act(() => come(late.events));

    expect(screen.getByRole("status").textContent).toContain("1 newer events wait");
    expect(screen.queryByText("look here")).toBeNull();

    await user.click(screen.getByRole("button", { name: "Follow" }));
    expect(await screen.findByText("look here")).toBeDefined();
  });

  test("what comes moves the list on at its end; that somebody scrolls near it does not", async () => {
    const scrolled = vi.fn();
    Object.defineProperty(Element.prototype, "scrollTo", { value: scrolled, configurable: true });
    const size = (name: "scrollHeight" | "clientHeight", px: number) =>
      vi.spyOn(Element.prototype, name, "get").mockReturnValue(px);
    size("scrollHeight", 1_000);
    size("clientHeight", 200);
    await open("Live stream");
    const list = screen.getByRole("listbox", { name: "Events" });
    const scrollTo = (top: number) => {
      list.scrollTop = top;
      fireEvent.scroll(list);
      scrolled.mockClear();
    };
    const comes = (history: History) => act(() => come(history.add("run:churn", "note.injected", {}).events));
    const history = churn();

    scrollTo(300);
    list.scrollTop = 780; // twenty pixels above its end
    fireEvent.scroll(list);
    expect(scrolled).not.toHaveBeenCalled();
    comes(history);
    await waitFor(() => expect(scrolled).toHaveBeenCalled());
    scrollTo(300);
    comes(history);
    await screen.findByRole("button", { name: "Newest" });
    expect(scrolled).not.toHaveBeenCalled();
  });

  test("an event that is chosen by keyboard shows what was seen before it", async () => {
    const user = await open("Live stream");
    screen.getByRole("listbox", { name: "Events" }).focus();
    await user.keyboard("{End}");

    expect(useConsole.getState().looked).toMatchObject({ runId: "churn/figures" });
    expect(screen.getByRole("region", { name: "Chosen event" })).toBeDefined();
  });
});

describe("the context of a step", () => {
  function decided() {
    return churn()
      .add("run:churn/figures", "context.assembled", { key: "c1/decision" })
      .add("run:churn/figures", "context.assembled", { key: "c2/decision" });
  }

  test("names sections, sources, reasons, the cache boundary and what was left out", async () => {
    await open("Context", decided());

    const rows = await screen.findByRole("list", { name: "Sections of the prompt" });
    expect(rows.textContent).toContain("cache boundary");
    expect(within(rows).getByText("made anew for this step")).toBeDefined();
    expect(within(rows).getByText("left out: handbook")).toBeDefined();
    expect(within(rows).getByText("no right to read")).toBeDefined();
    expect(within(rows).getByText("untrusted")).toBeDefined();
    expect(within(rows).getByRole("button", { name: "analyst@1" })).toBeDefined();
    expect(screen.getByRole("img", { name: /300 tokens: agent 200, now 100/ })).toBeDefined();
    await expectAccessible();
  });

  test("shows the exact bytes, as text and never as HTML", async () => {
    const user = await open("Context", decided());
    await user.click(await screen.findByRole("button", { name: "Exact text" }));

    expect(await screen.findByText("Ünder <b>no</b> circumstances")).toBeDefined();
    expect(screen.getByText(String(new TextEncoder().encode(PROMPT).length))).toBeDefined();
    await user.click(screen.getByRole("button", { name: "Show bytes" }));
    expect(screen.getByText(PROMPT)).toBeDefined();
  });

  test("tells the difference to the prompt before, and what ended the cached prefix", async () => {
    const user = await open("Context", decided());
    await user.click(await screen.findByRole("button", { name: "Difference" }));

    expect(await screen.findByText(/The prefix ends at policy: it changed/)).toBeDefined();
    expect(asked.some(({ url }) => url.includes("a=c1%2Fdecision&b=c2%2Fdecision"))).toBe(true);
  });
});

test("the decision log has action, reason and verdict, and each decision leads to its prompt", async () => {
  const user = await open("Decisions");

  const table = screen.getByRole("table", { name: "Decisions" });
  expect(within(table).getByText("numbers agree")).toBeDefined();
  expect(within(table).getByText("passed")).toBeDefined();
  await user.click(within(table).getByText("numbers agree"));
  expect(useConsole.getState().looked).toMatchObject({ runId: "churn/figures", step: "c1/decision" });
  await expectAccessible();
});

test("the ledger shows that all accounts add up to zero", async () => {
  await open("Ledger");

  expect(await screen.findByText(/Sum of 3 accounts/)).toBeDefined();
  expect(screen.getByText("spent:m")).toBeDefined();
  expect(within(screen.getByRole("table", { name: "Ledger entries" })).getAllByText("hold").length).toBe(2);
  await expectAccessible();
});

describe("the timeline", () => {
  test("one moves through the past by keyboard, and the newest event is now", async () => {
    serveThePast();
    const user = await open("Timeline");
    const slider = screen.getByRole("slider", { name: "Position in time" });
    expect(slider.getAttribute("aria-valuetext")).toContain("now");

    await user.click(screen.getByRole("button", { name: "Previous mark" }));
    await waitFor(() => expect(shownGraph().tasks.get("churn/figures")?.status).toBe("active"));
    expect(eventLog.graph.tasks.get("churn/figures")?.status).toBe("done");
    expect(slider.getAttribute("aria-valuetext")).not.toContain("now");
    await expectAccessible();

    act(() => void runCommand("view.now"));
    expect(useUi.getState().travel).toBeNull();
  });

  test("a fork from a moment of the past asks the server for that event, and comes back to now", async () => {
    const user = await open("Timeline");
    await user.click(screen.getByRole("button", { name: "Previous mark" }));
    await user.click(screen.getByRole("button", { name: "Previous mark" }));
    const event = eventLog.events(useUi.getState().travel).at(-1);
    expect(event?.kind).toBe("decision.taken");

    await user.click(screen.getByRole("button", { name: "Fork from here" }));

    await waitFor(() => expect(useUi.getState().travel).toBeNull());
    expect(asked.at(-1)).toEqual({
      url: "/api/v1/runs/churn%2Ffigures/fork",
      body: { at: event?.seq },
    });
    expect(useUi.getState().selection).toEqual({ kind: "run", id: "churn/figures.fork-1" });
  });

  test("a viewer sees the past, and why nothing can be forked", async () => {
    resetUi({ me: { ...ME, role: "viewer" }, live: "live" });
    const user = await open("Timeline");

    const fork = screen.getByRole("button", { name: "Fork from here" });
    expect(fork.getAttribute("aria-disabled")).toBe("true");
    await user.click(fork);
    expect(asked).toEqual([]);
  });
});
