import { QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import { eventLog } from "@/state/log";
import { resetUi, setUi, useUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import { tagsOf } from "./RememberDialog";
import MemoryScreen from "./screen";

const ME = {
  name: "ada",
  role: "operator",
  tenant: "default",
  tenants: ["default"],
  csrf_token: "t",
  features: [],
  version: "1",
} as const;

const entry = (id: string, text: string) => ({
  id,
  text,
  tick: 1_790_000_000_000_000,
  tags: ["codes"],
  importance: 0.5,
  speaker: "",
  date: "",
  trust: "trusted",
  run_id: null,
  deduplicated: false,
});

/** The memory of one agent, as a server would keep it. */
let kept: ReturnType<typeof entry>[] = [];
let notes = "Likes short answers";
let asked: { method: string; url: string; body: unknown }[] = [];

function answer(method: string, url: string, body: unknown): unknown {
  if (url.endsWith("/entries") && method === "POST") {
    const made = entry(`mem_${kept.length + 1}`, (body as { text: string }).text);
    kept.push(made);
    return made;
  }
  if (method === "DELETE") {
    kept = kept.filter((one) => !url.endsWith(one.id));
    return entry("gone", "gone");
  }
  if (method === "PUT") notes = (body as { text: string }).text;
  if (url.includes("/search")) {
    return {
      items: [{ where: "long-term", id: "mem_1", text: "Found words", score: 9.75, trust: "untrusted" }],
      next: null,
    };
  }
  if (url.includes("/changes"))
    return {
      items: [
        {
          id: 2,
          kind: "memory.added",
          summary: "remembered",
          at_us: 1,
          by: "user:ada",
          run_id: null,
          undone_by: null,
        },
        {
          id: 1,
          kind: "memory.added",
          summary: "older",
          at_us: 1,
          by: "agent:ana",
          run_id: "r1",
          undone_by: 2,
        },
      ],
      next: null,
    };
  if (/\/memory\/m1%2Fana/.test(url)) {
    const block = { label: "notes", text: notes, limit_chars: 30, version: 1, ref: "x@1", missing: "" };
    return { agent: "m1/ana", blocks: [block], items: kept, next: null };
  }
  return { items: [{ agent: "m1/ana", entries: kept.length }], next: null };
}

beforeEach(() => {
  kept = [entry("mem_1", "The locker code is 4711")];
  notes = "Likes short answers";
  asked = [];
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    const method = init.method ?? "GET";
    const body = typeof init.body === "string" ? (JSON.parse(init.body) as unknown) : null;
    asked.push({ method, url, body });
    return Promise.resolve(new Response(JSON.stringify(answer(method, url, body))));
  });
  queryClient.clear();
  eventLog.clear();
  resetUi({ me: ME, session: "signed_in", live: "live" });
});

async function open(): Promise<void> {
  render(
    <QueryClientProvider client={queryClient}>
      <MemoryScreen id="m1/ana" />
    </QueryClientProvider>,
  );
  await screen.findByText("Likes short answers");
}

test("agents, blocks and entries are shown, and accessible", async () => {
  await open();
  expect(await screen.findByText("1 entry")).toBeTruthy();
  expect(screen.getByRole("meter", { name: "notes, filled" }).getAttribute("aria-valuetext")).toBe(
    "19 of 30 characters",
  );
  expect(screen.getByText("The locker code is 4711")).toBeTruthy();
  await expectAccessible();
});

test("an entry is forgotten only after a question, and is gone from the list", async () => {
  const user = userEvent.setup();
  await open();
  const forget = () => screen.getByRole("button", { name: /^Forget: The locker/ });
  await user.click(forget());
  await expectAccessible();
  await user.click(screen.getByRole("button", { name: "Cancel" }));
  expect(asked.some((one) => one.method === "DELETE")).toBe(false);

  await user.click(forget());
  await user.click(screen.getByRole("button", { name: "Forget it" }));
  await waitFor(() => expect(screen.queryByText("The locker code is 4711")).toBeNull());
  expect(asked.find((one) => one.method === "DELETE")?.url).toBe("/api/v1/memory/m1%2Fana/entries/mem_1");
});

test("what a person adds is sent with its tags, and stands in the list", async () => {
  const user = userEvent.setup();
  await open();
  await user.click(screen.getByRole("button", { name: "Remember" }));
  const dialog = within(screen.getByRole("dialog"));
  await user.type(dialog.getByLabelText("What"), "Doors close at nine");
  await user.type(dialog.getByLabelText("Tags"), "house, house, ,doors");
  await user.click(dialog.getByRole("button", { name: "Remember" }));

  expect(await screen.findByText("Doors close at nine")).toBeTruthy();
  expect(asked.find((one) => one.method === "POST")?.body).toEqual({
    text: "Doors close at nine",
    tags: ["house", "doors"],
    importance: 0.5,
  });
  expect(useUi.getState().toasts.at(-1)?.title).toBe("m1/ana remembers it.");
  expect(tagsOf("")).toEqual([]);
});

test("a block is edited within its limit", async () => {
  const user = userEvent.setup();
  await open();
  await user.click(screen.getByRole("button", { name: "Edit" }));
  const field = screen.getByLabelText("Text of notes");
  await user.clear(field);
  await user.type(field, "0123456789012345678901234567890");
  expect(screen.getByText("Shorten it by 1 characters.")).toBeTruthy();
  expect(screen.getByRole("button", { name: "Save" })).toHaveProperty("ariaDisabled", "true");

  await user.type(field, "{Backspace}");
  await user.click(screen.getByRole("button", { name: "Save" }));
  expect(await screen.findByText("012345678901234567890123456789")).toBeTruthy();
  expect(asked.find((one) => one.method === "PUT")?.url).toBe("/api/v1/memory/m1%2Fana/blocks/notes");
});

test("a search shows what the agent would find; changes can be taken back once", async () => {
  const user = userEvent.setup();
  await open();
  await user.type(screen.getByRole("searchbox"), "locker");
  expect(await screen.findByText("Found words")).toBeTruthy();
  expect(screen.getByText("untrusted")).toBeTruthy();

  await user.click(screen.getByRole("tab", { name: "Changes" }));
  expect(await screen.findByText("taken back by 2")).toBeTruthy();
  expect(screen.getAllByRole("button", { name: /Undo change/ })).toHaveLength(1);
  await user.click(screen.getByRole("button", { name: "Undo change 2" }));
  await waitFor(() =>
    expect(asked.some((one) => one.url === "/api/v1/memory/m1%2Fana/changes/2/undo")).toBe(true),
  );
});

test("viewers look and change nothing; who looks at the past is told that memory is of now", async () => {
  setUi({ me: { ...ME, role: "viewer" } });
  await open();
  expect(screen.getByRole("button", { name: "Edit" }).getAttribute("aria-description")).toMatch(/viewer/);
  expect(screen.getByRole("button", { name: /^Forget/ }).getAttribute("aria-disabled")).toBe("true");
  setUi({ travel: 1 });
  expect(await screen.findByText(/does not travel in time/)).toBeTruthy();
});
