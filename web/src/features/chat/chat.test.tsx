import { QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import { commandOf, commandState, runCommand } from "@/commands/registry";
import { currentRoute, navigate } from "@/shell/route";
import { eventLog } from "@/state/log";
import { resetUi, select, useUi } from "@/state/ui";
import { History } from "../../../tests/events";
import { come } from "../../../tests/fold";
import { expectAccessible } from "../../../tests/axe";
import type { Chat, Deletion } from "./api";
import { ChatView } from "./ChatView";

const ME = {
  name: "ada",
  role: "operator",
  tenant: "default",
  tenants: ["default"],
  csrf_token: "t",
  features: [],
  version: "0.1",
} as const;

function reply(number: number, text: string, run_id: string) {
  const parts = [{ channel: "text", text, operation: "" }];
  return {
    number,
    text,
    parts,
    status: "done",
    finish_reason: "completed",
    run_id,
    at_us: 3,
    is_hidden: false,
    speaker: "",
    tokens: 4,
  };
}

const CHAT: Chat = {
  id: "tavern",
  branch: "main",
  settings: {
    model: "offline",
    fallbacks: [],
    profile: "moods@1",
    user: { name: "Ada" },
    char: { name: "Mira" },
    group: [],
    speaks: "list",
    system: "",
    scenario: "",
    variables: {},
    prompts: [],
    note: {},
    quick_replies: [],
    preset: "",
    lorebooks: [],
    params: {},
    history_max: 200,
    deadline_ms: 0,
  },
  branches: [
    {
      name: "main",
      origin: "",
      run_id: "tavern/r000002",
      status: "completed",
      turn: 1,
      is_current: true,
      made_us: 1,
    },
  ],
  turns: [
    {
      number: 1,
      user: "Hello",
      said: "Hello",
      selected: 2,
      variants: [reply(1, "Hi.", "tavern/r000001"), reply(2, "<b>Well</b> **met**.", "tavern/r000002")],
      at_us: 2,
      is_hidden: false,
      persona: "",
      user_tokens: 2,
      media: [],
    },
  ],
  before: null,
  panels: [
    {
      tag: "mood",
      value: { now: "calm" },
      version: 1,
      usage: "ui_only",
      semantics: "state",
      is_feed: false,
      operation: "mood",
      run_id: "tavern/r000002",
      at_us: 3,
    },
  ],
  feeds: [],
  sessions: [],
};

const DELETION: Deletion = {
  turns: 1,
  derived_runs: ["tavern/r000001", "tavern/r000003"],
  erased_runs: ["tavern/r000001"],
  unshown_runs: [],
  derived_artifacts: [],
  is_erased: true,
  is_cleaned: true,
};

let chat: Chat = CHAT;
let deletion = DELETION;
let asked: string[] = [];
let events: unknown[] = [];

beforeEach(() => {
  chat = CHAT;
  deletion = DELETION;
  navigate("/chat/tavern");
  asked = [];
  events = [];
  queryClient.clear();
  sessionStorage.clear();
  resetUi({ me: ME, session: "signed_in", live: "live" });
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    if (init.method === "POST")
      asked.push(`${url.replace("/api/v1/sessions/tavern", "")} ${String(init.body)}`);
    const isChat = init.method === "GET" && /\/sessions\/tavern\?/.test(url);
    const draft = { text: "I open the door.", run_id: "tavern/draft-000001", cost_microusd: 0 };
    if (url.endsWith("/impersonate")) return Promise.resolve(new Response(JSON.stringify(draft)));
    if (url.endsWith("/branch")) return Promise.resolve(new Response('{"branch":"branch-1"}'));
    if (url.endsWith("/delete")) return Promise.resolve(new Response(JSON.stringify(deletion)));
    const body = isChat ? chat : url.includes("/events") ? { items: events, next: null } : chat;
    return Promise.resolve(new Response(JSON.stringify(body)));
  });
});

async function show(): Promise<void> {
  render(
    <QueryClientProvider client={queryClient}>
      <ChatView chat="tavern" branch="main" />
    </QueryClientProvider>,
  );
  await screen.findByRole("article", { name: "Turn 1" });
}

function said(): string {
  return screen.getByLabelText<HTMLTextAreaElement>("What you say").value;
}

test("a turn shows the selected reply as text, never as HTML, and the way to the others", async () => {
  await show();
  const turn = screen.getByRole("article", { name: "Turn 1" });
  expect(turn.textContent).toContain("<b>Well</b> met.");
  expect(turn.querySelector("b")).toBeNull();
  expect(within(turn).getByText("2 of 2")).toBeTruthy();
  await userEvent.click(within(turn).getByRole("button", { name: "Previous reply" }));
  expect(asked).toEqual(['/select {"branch":"main","turn":1,"variant":1}']);
  await expectAccessible();
});

test("another reply opens on a branch of its own, with what was said after it, by keyboard too", async () => {
  await show();
  screen.getByRole("button", { name: "More about turn 1" }).focus();
  await userEvent.keyboard("{Enter}");
  screen.getByRole("menuitem", { name: "Open another reply on a branch …" }).focus();
  await userEvent.keyboard("{Enter}");
  const dialog = screen.getByRole("dialog", { name: "Other replies of turn 1" });
  expect(dialog.textContent).toContain("reply 1Hi.");
  expect(dialog.textContent).not.toContain("met");
  const open = within(dialog).getByRole("button", { name: "Open reply 1" });
  expect(document.activeElement).toBe(open);
  await expectAccessible();
  await userEvent.keyboard("{Enter}");
  expect(asked).toEqual([
    '/branch {"branch":"main","at_turn":1,"name":null}',
    '/select {"branch":"branch-1","turn":1,"variant":1}',
  ]);
  expect(currentRoute().query).toEqual({ branch: "branch-1" });
});

test("a deletion says what no branch shows any more, and opens the newest of it", async () => {
  deletion = { ...DELETION, unshown_runs: ["tavern/r000003"] };
  await show();
  await userEvent.click(screen.getByRole("button", { name: "More about turn 1" }));
  await userEvent.click(screen.getByRole("menuitem", { name: "Delete the turn …" }));
  await userEvent.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Delete" }));
  const [note] = useUi.getState().toasts;
  expect(note?.advice).toContain("Kept, but on no branch: tavern/r000003.");
  expect(note?.advice).not.toContain("Made after");
  expect(note?.action?.label).toBe("Open it");
  note?.action?.run();
  await vi.waitFor(() => expect(currentRoute().query).toEqual({ branch: "branch-1" }));
  expect(asked.at(-1)).toBe('/branch {"branch":"main","at_turn":null,"at_run":"tavern/r000003","name":null}');
});

test("the reply of a selected run opens on a branch; a run that is no turn of a chat has none", async () => {
  const history = new History();
  for (const run of ["tavern/r000003", "tavern/r000003/again-0001"])
    history.add(`run:${run}`, "run.started", { loop: "chat", agent: "", model: "m" });
  eventLog.clear();
  come(history.events);
  select("run", "tavern/r000003/again-0001");
  const command = commandOf("chat.open_reply");
  expect(command?.enabled(commandState())).toMatchObject({ ok: false });
  select("run", "tavern/r000003");
  await runCommand("chat.open_reply");
  expect(asked).toEqual(['/branch {"branch":"main","at_turn":null,"at_run":"tavern/r000003","name":null}']);
  expect(currentRoute().query).toEqual({ branch: "branch-1" });
});

test("Enter says it, Shift+Enter begins a line, and what is unsaid survives a reload", async () => {
  await show();
  await userEvent.type(screen.getByLabelText("What you say"), "One{Shift>}{Enter}{/Shift}two");
  cleanup();
  await show();
  expect(said()).toBe("One\ntwo");
  await userEvent.type(screen.getByLabelText("What you say"), "{Enter}");
  expect(asked).toEqual(['/turns {"text":"One\\ntwo","branch":"main"}']);
  cleanup();
  await show();
  expect(said()).toBe("");
});

test.each([{ name: "bob" }, { tenant: "globex" }])("what is unsaid is not shown to %o", async (other) => {
  await show();
  await userEvent.type(screen.getByLabelText("What you say"), "My secret");
  cleanup();
  resetUi({ me: { ...ME, ...other }, session: "signed_in", live: "live" });
  await show();
  expect(said()).toBe("");
});

test("a quick reply is said at one press, and a draft stands where one writes until it is said", async () => {
  chat = {
    ...CHAT,
    settings: { ...CHAT.settings, quick_replies: [{ label: "Onward", text: "Let us go on." }] },
  };
  await show();
  await userEvent.click(screen.getByRole("button", { name: "Onward" }));
  await userEvent.click(screen.getByRole("button", { name: "Write for me" }));
  expect(asked).toEqual([
    '/turns {"text":"Let us go on.","branch":"main"}',
    '/impersonate {"branch":"main"}',
  ]);
  expect(screen.getByLabelText<HTMLTextAreaElement>("What you say").value).toBe("I open the door.");
  expect(screen.getByRole("article", { name: "Turn 1" }).textContent).toContain("2 + 4 tokens");
  await expectAccessible();
});

test("a reply has the picture of who speaks, and what the model thought is folded", async () => {
  const [turn] = CHAT.turns;
  const [first, second] = turn!.variants;
  const parts = [
    { channel: "reasoning", text: "A knock.", operation: "" },
    { channel: "text", text: "Come in.", operation: "" },
  ];
  chat = {
    ...CHAT,
    settings: { ...CHAT.settings, char: { name: "Mira", portrait: "characters/x/Mira/file@1" } },
    turns: [{ ...turn!, variants: [first!, { ...second!, parts, speaker: "Mira" }] }],
  };
  await show();
  const shown = screen.getByRole("article", { name: "Turn 1" });
  expect(shown.querySelector("img")?.getAttribute("src")).toBe("/api/v1/sessions/tavern/portrait?name=Mira");
  const folded = shown.querySelector("details");
  expect(folded?.open).toBe(false);
  expect(folded?.textContent).toContain("A knock.");
  await expectAccessible();
});

test("what went with words is shown, wherever it was attached: pictures to see, all else to download", async () => {
  const [turn] = CHAT.turns;
  const media = [
    {
      position: 1,
      media_type: "image/png",
      size_bytes: 9120,
      pages: null,
      pixels: [640, 480],
      seconds: null,
    },
    { position: 2, media_type: "application/pdf", size_bytes: 40, pages: 2, pixels: null, seconds: null },
  ];
  chat = { ...CHAT, turns: [{ ...turn!, media }] };
  await show();
  const shown = screen.getByRole("article", { name: "Turn 1" });
  const picture = within(shown).getByRole("img", { name: "Attachment 1 of 2 of turn 1: Hello" });
  const address = "/api/v1/sessions/tavern/turns/1/media/";
  expect(picture.getAttribute("src")).toBe(`${address}1?branch=main`);
  const links = within(shown).getAllByRole("link", { name: "Download" });
  expect(links.map((one) => one.getAttribute("href"))).toEqual([
    `${address}1?branch=main`,
    `${address}2?branch=main`,
  ]);
  expect(shown.textContent).toContain("PDF (application/pdf, 2 pages, 40 bytes)");
  await expectAccessible();
});

test("quick replies are kept, put in another order and forgotten under Set-up", async () => {
  const changed: unknown[] = [];
  const before = globalThis.fetch;
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    if (init.method === "PATCH") changed.push(JSON.parse(String(init.body)));
    return before(url, init);
  });
  const kept = [
    { label: "Onward", text: "Let us go on." },
    { label: "Look", text: "I look around." },
  ];
  chat = { ...CHAT, settings: { ...CHAT.settings, quick_replies: kept } };
  await show();
  await userEvent.click(screen.getByRole("tab", { name: "Set-up" }));
  const own = screen.getByRole("region", { name: "Quick replies of the chat" });
  await userEvent.click(within(own).getByRole("button", { name: "Up" }));
  await userEvent.click(within(within(own).getByLabelText("Onward")).getByRole("button", { name: "Forget" }));
  await userEvent.type(within(own).getByLabelText("Label of a quick reply"), "Wait");
  await userEvent.type(within(own).getByLabelText("Words that it says"), "I wait.");
  await userEvent.click(within(own).getByRole("button", { name: "Keep it" }));
  expect(changed).toEqual([
    { quick_replies: [kept[1], kept[0]] },
    { quick_replies: [kept[1]] },
    { quick_replies: [...kept, { label: "Wait", text: "I wait." }] },
  ]);
});

test("the order of a preset is shown under Set-up and taken back, and the chat has a scenario", async () => {
  const changed: unknown[] = [];
  const before = globalThis.fetch;
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    if (init.method === "PATCH") changed.push(JSON.parse(String(init.body)));
    return before(url, init);
  });
  const part = { id: "", text: "", role: "system" as const, depth: null, triggers: [], is_fixed: false };
  const prompts = [
    { ...part, place: "history" as const },
    { ...part, place: "text" as const, text: "Be brief." },
  ];
  chat = { ...CHAT, settings: { ...CHAT.settings, prompts } };
  await show();
  await userEvent.click(screen.getByRole("tab", { name: "Set-up" }));
  const files = screen.getByRole("region", { name: "Files" });
  expect(files.textContent).toContain("history · Be brief.");
  await userEvent.click(within(files).getByRole("button", { name: "Take the usual order" }));
  await userEvent.type(screen.getByLabelText("Scenario of this chat"), "A ferry.");
  await userEvent.click(screen.getByRole("button", { name: "Store" }));
  expect(changed).toEqual([{ prompts: null }, { scenario: "A ferry." }]);
});

test("other words for a turn are said on a new branch, and it is said before", async () => {
  await show();
  await userEvent.click(screen.getByRole("button", { name: "More about turn 1" }));
  await userEvent.click(screen.getByRole("menuitem", { name: "Say it in other words …" }));
  expect(screen.getByText(/this branch stays as it is/)).toBeTruthy();
  const field = screen.getByLabelText("Other words for turn 1");
  await userEvent.clear(field);
  await userEvent.type(field, "Good day");
  await userEvent.click(screen.getAllByRole("button", { name: "Say it" })[0]!);
  expect(asked).toEqual(['/edit {"branch":"main","turn":1,"text":"Good day"}']);
});

test("what the chat keeps is shown with what wrote it, and whether prompts see it", async () => {
  await show();
  const panel = screen.getByRole("region", { name: "art.mood" });
  expect(panel.textContent).toContain("calm");
  expect(panel.textContent).toContain("by mood");
  expect(panel.textContent).toContain("no prompt sees it");
  await userEvent.click(within(panel).getByRole("button", { name: "Publish" }));
  expect(asked).toEqual(['/publish {"branch":"main","tag":"mood"}']);
});

test("a viewer reads everything and is told why nothing can be said", async () => {
  resetUi({ me: { ...ME, role: "viewer" }, session: "signed_in", live: "live" });
  await show();
  const box = screen.getByLabelText("What you say");
  expect(box.getAttribute("placeholder")).toContain("viewer");
  await userEvent.type(box, "Hello{Enter}");
  await userEvent.click(screen.getByRole("button", { name: "Reply again" }));
  expect(asked).toEqual([]);
});

test("a turn that failed says why and is tried again with the same words", async () => {
  const [branch] = CHAT.branches;
  const [turn] = CHAT.turns;
  chat = {
    ...CHAT,
    branches: [{ ...branch!, run_id: "tavern/r000003", status: "failed" }],
    turns: [{ ...turn!, selected: 0, variants: [] }],
  };
  await show();
  expect((await screen.findByText(/There is no reply/)).textContent).toContain("There is no reply");
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(asked).toEqual(['/regenerate {"branch":"main"}']);
});

test("a reply that failed has the reason beside the words, and names the operation that ended it", async () => {
  const [turn] = CHAT.turns;
  const failed = { ...reply(1, "Well", "tavern/r000001"), status: "failed" };
  chat = { ...CHAT, turns: [{ ...turn!, selected: 1, variants: [failed] }] };
  const plan = ["mood", "log"].map((operation_id) => ({
    operation_id,
    hook: "after_main_llm",
    kind: "template",
    required: operation_id === "log",
  }));
  const end = { type: "operation.finished", hook: "after_main_llm", status: "error", at_us: 2 };
  events = [
    { seq: 1, type: "run.phase_changed", at_us: 1, phase: "after_main_llm", plan },
    { ...end, seq: 2, operation_id: "mood", message: "not what ended it" },
    { ...end, seq: 3, operation_id: "log", code: "template_error", message: "divided by zero" },
    { seq: 4, type: "run.finished", at_us: 3, status: "failed", message: "the log is required" },
  ];
  await show();
  const shown = within(screen.getByRole("article", { name: "Turn 1" }));
  expect(await shown.findByText("failed: the log is required")).toBeTruthy();
  expect(shown.getByText("Operation log: divided by zero")).toBeTruthy();
  expect(shown.queryByText(/not what ended it/)).toBeNull();
  await expectAccessible();
});

test("each edit of a message is one request, and what stays is said before", async () => {
  await show();
  const choose = async (name: string) => {
    await userEvent.click(screen.getByRole("button", { name: "More about turn 1" }));
    await userEvent.click(screen.getByRole("menuitem", { name }));
  };
  await choose("Change the reply …");
  const reply = screen.getByLabelText("The reply of turn 1");
  await userEvent.clear(reply);
  await userEvent.type(reply, "Go.");
  await userEvent.click(screen.getByRole("button", { name: "Store" }));
  await choose("Run it again …");
  await userEvent.click(screen.getByRole("button", { name: "Run it again" }));
  await choose("Hide your words from prompts");
  await choose("Delete this reply …");
  expect(screen.getByRole("dialog").textContent).toContain("cannot be undone");
  await userEvent.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Delete" }));
  expect(asked).toEqual([
    '/revise {"branch":"main","turn":1,"role":"assistant","text":"Go."}',
    '/rerun {"branch":"main","turn":1,"text":""}',
    '/hide {"branch":"main","turn":1,"role":"user","hidden":true}',
    '/delete {"branch":"main","turn":1,"variant":2}',
  ]);
});

test("of a group each message has the name of who said it, and anybody can speak next", async () => {
  const [turn] = CHAT.turns;
  chat = {
    ...CHAT,
    settings: { ...CHAT.settings, group: [{ name: "Mira" }, { name: "Bob" }] },
    turns: [
      {
        ...turn!,
        persona: "Zoe",
        variants: turn!.variants.map((one) => ({ ...one, speaker: "Bob" })),
      },
    ],
  };
  await show();
  expect(screen.getByRole("article", { name: "Turn 1" }).textContent).toMatch(/Zoe.*Hello.*Bob.*met/);
  await userEvent.click(screen.getByRole("button", { name: "Next speaker" }));
  await userEvent.click(screen.getByRole("button", { name: "Who …" }));
  await userEvent.click(screen.getByRole("menuitem", { name: "Mira" }));
  expect(asked).toEqual([
    '/speak {"branch":"main","speaker":""}',
    '/speak {"branch":"main","speaker":"Mira"}',
  ]);
});
