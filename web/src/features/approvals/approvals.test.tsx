import { QueryClientProvider } from "@tanstack/react-query";
import { act, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import { eventLog } from "@/state/log";
import { resetUi, setUi, useUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import { History } from "../../../tests/events";
import { come, foldAll } from "../../../tests/fold";
import { mattersOf, readArguments } from "./inbox";
import Approvals from "./panel";

const ASKED = {
  run_id: "m/mail",
  step: "c2/tool/approval",
  question: "call send_email",
  details: { tool: "send_email", arguments: { to: ["a@x"], subject: "Hello" } },
  expires_us: null,
};

const sent: { readonly url: string; readonly body: unknown }[] = [];

const PAID = {
  step: "pay",
  tool: "pay_invoice",
  arguments: { to: "ana" },
  idempotency_key: "t/m/pay:pay",
  requested_us: 1_700_000_000_000_000,
  unresolved_us: 1_700_000_001_000_000,
  code: "crash",
  probe_error: "RuntimeError: the bank is closed",
};

beforeEach(() => {
  sent.length = 0;
  eventLog.clear();
  queryClient.clear();
  resetUi({
    live: "live",
    me: {
      name: "ada",
      role: "operator",
      tenant: "t",
      tenants: ["t"],
      csrf_token: "c",
      features: [],
      version: "0",
    },
  });
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    if (init.method === "POST") sent.push({ url, body: JSON.parse(String(init.body)) as unknown });
    const body = url.includes("/approvals")
      ? { items: [ASKED], next: null }
      : url.includes("/runs/") && init.method !== "POST"
        ? { unknown_outcomes: ["pay", "mail"], unknown_calls: [PAID] }
        : { run_id: "m/mail", effect: "approval.given", queued: true };
    return Promise.resolve(new Response(JSON.stringify(body)));
  });
});

/** One tool call that waits for a yes; its question came cut. */
function asking(): History {
  return new History()
    .add("artifact:m/clerk", "artifact.written", { id: "m/clerk", kind: "agent", version: 1 })
    .add("run:m/mail", "run.started", { loop: "task", agent: "m/clerk", model: "x" })
    .add("run:m/mail", "model.completed", { key: "c2/decision", cost: 41_000 })
    .add(
      "run:m/mail",
      "approval.requested",
      { key: "c2/tool/approval", question: "b:q" },
      { texts: { question: '{"details":{"tool":"send_email","argum…' } },
    );
}

function show(history: History) {
  come(history.events);
  return render(
    <QueryClientProvider client={queryClient}>
      <Approvals />
    </QueryClientProvider>,
  );
}

test("without anything to settle there is nothing to see", () => {
  const { container } = show(new History().add("run:a", "run.started", { loop: "task" }));

  expect(container.textContent).toBe("");
});

test("what waits is in sight with what it is about, and goes when it is settled", async () => {
  const user = userEvent.setup();
  const history = asking();
  show(history);
  const inbox = screen.getByRole("region", { name: "Waiting for a person" });
  expect(await within(inbox).findByText(/asks to call send_email/)).toBeTruthy();
  await user.click(within(inbox).getByRole("button", { name: "Deny" }));

  expect(sent).toEqual([
    {
      url: "/api/v1/runs/m%2Fmail/approve",
      body: { step: "c2/tool/approval", decision: "deny", note: "" },
    },
  ]);
  act(() => {
    come(
      history.add("run:m/mail", "approval.given", {
        key: "c2/tool/approval",
        decision: "deny",
        queued: false,
      }).events,
    );
  });
  expect(screen.queryByRole("region")).toBeNull();
});

test("a question in words is answered in words, where it stands", async () => {
  const user = userEvent.setup();
  const question = { ...ASKED, question: "Which quarter is meant?", details: {} };
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    if (init.method === "POST") sent.push({ url, body: JSON.parse(String(init.body)) as unknown });
    return Promise.resolve(new Response(JSON.stringify({ items: [question], next: null })));
  });
  show(asking());
  const inbox = screen.getByRole("region", { name: "Waiting for a person" });
  expect(await within(inbox).findByText(/Which quarter is meant/)).toBeTruthy();
  await user.type(within(inbox).getByRole("textbox"), " the third ");
  await user.click(within(inbox).getByRole("button", { name: "Answer" }));

  expect(sent.map((one) => one.body)).toEqual([
    { step: "c2/tool/approval", decision: "approve", note: "the third" },
  ]);
});

test("the dialog shows what a person must know, and approves with other arguments and a note", async () => {
  const user = userEvent.setup();
  show(asking());
  await screen.findByText(/asks to call send_email/);
  await user.click(screen.getByRole("button", { name: "Review" }));
  const dialog = screen.getByRole("dialog");
  expect(within(dialog).getByText(/\$0\.041 for this run/)).toBeTruthy();
  expect(within(dialog).getByText("m/clerk")).toBeTruthy();
  await expectAccessible();

  const field = within(dialog).getByLabelText("Arguments");
  await user.clear(field);
  await user.type(field, "{{ no JSON");
  expect(within(dialog).getByText(/no JSON yet/)).toBeTruthy();
  expect(within(dialog).getByRole("button", { name: "Approve with changes" })).toHaveProperty(
    "ariaDisabled",
    "true",
  );
  await user.clear(field);
  await user.type(field, '{{"to":[["b@x"],"subject":"Hello"}');
  await user.type(within(dialog).getByLabelText("Note"), "to b alone");
  await user.click(within(dialog).getByRole("button", { name: "Approve with changes" }));

  expect(sent.at(-1)?.body).toEqual({
    step: "c2/tool/approval",
    decision: "approve",
    note: "to b alone",
    arguments: { to: ["b@x"], subject: "Hello" },
  });
  expect(screen.queryByRole("dialog")).toBeNull();
});

test("arguments that are approved as they were are not sent back", async () => {
  const user = userEvent.setup();
  show(asking());
  await screen.findByText(/asks to call send_email/);
  await user.click(screen.getByRole("button", { name: "Review" }));
  await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Approve" }));

  expect(sent.at(-1)?.body).toEqual({ step: "c2/tool/approval", decision: "approve", note: "" });
});

test("arguments keep their form, and nothing that was cut can be edited", () => {
  const before = { to: ["a"], subject: "Hello", urgent: false };

  expect(readArguments('{"to":["b"]}', before)).toEqual({ value: { to: ["b"] }, error: "" });
  expect(readArguments('{"to":"b"}', before).error).toBe('"to" was a list; it must stay that.');
  expect(readArguments("[1]", before).error).toMatch(/object/);
  const graph = foldAll(asking().events);
  expect(mattersOf(graph, [])[0]).toMatchObject({ isWhole: false, question: "c2/tool/approval" });
  expect(mattersOf(graph, [ASKED])[0]).toMatchObject({ isWhole: true, tool: "send_email", who: "clerk" });
});

test("the question of a launch leads to its plan", async () => {
  const user = userEvent.setup();
  show(
    new History()
      .add("run:m", "run.started", { loop: "mission" }, { texts: { goal: "Why?" } })
      .add(
        "run:m",
        "approval.requested",
        { key: "launch" },
        { texts: { question: '{"question":"Launch it?"}' } },
      ),
  );
  await user.click(screen.getByRole("button", { name: "Review plan" }));

  expect(useUi.getState().plan).toBe("m");
});

test("a call whose outcome nobody knows is settled by a person", async () => {
  const user = userEvent.setup();
  show(
    new History()
      .add("run:m/pay", "run.started", { loop: "task", agent: "m/clerk" })
      .add("run:m/pay", "tool.unresolved", { key: "pay" }),
  );
  await user.click(screen.getByRole("button", { name: "Review" }));
  const dialog = screen.getByRole("dialog", { name: "What became of it?" });
  const call = await within(dialog).findByLabelText("The call");
  for (const fact of ["pay_invoice", '{"to":"ana"}', "t/m/pay:pay", "RuntimeError: the bank is closed"])
    expect(within(call).getByText(fact)).toBeTruthy();
  await user.selectOptions(within(dialog).getByLabelText("What became of the call"), "failed");
  await user.type(within(dialog).getByLabelText("Why it failed"), "bounced");
  await expectAccessible();
  await user.click(within(dialog).getByRole("button", { name: "Settle" }));

  expect(sent.at(-1)).toEqual({
    url: "/api/v1/runs/m%2Fpay/reconcile",
    body: { step: "pay", answer: "failed", message: "bounced" },
  });
});

test("in the past and for viewers it is in sight, and cannot be answered", () => {
  show(asking());
  act(() => setUi({ travel: 1 }));
  expect(screen.getByRole("button", { name: "Approve" })).toHaveProperty("ariaDisabled", "true");

  act(() => setUi((state) => ({ travel: null, me: state.me && { ...state.me, role: "viewer" } })));
  expect(screen.getByRole("button", { name: "Deny" })).toHaveProperty("ariaDisabled", "true");
});

test.each([
  ["task", "send it goes on"],
  ["", "send it goes on when the program that started it is run again"],
])("what is said after an answer is true of a run of loop %j that nobody drives", async (loop, words) => {
  const user = userEvent.setup();
  show(
    new History()
      .add("run:m/mail", "run.started", { loop, model: "x", goal: "b:g" }, { texts: { goal: "send it" } })
      .add(
        "run:m/mail",
        "approval.requested",
        { key: "c2/tool/approval", question: "b:q" },
        { texts: { question: '{"details":{"tool":"send_email","argum…' } },
      ),
  );
  await screen.findByText(/asks to call send_email/);
  await user.click(screen.getByRole("button", { name: "Deny" }));

  await vi.waitFor(() =>
    expect(useUi.getState().toasts.map((one) => one.title)).toEqual([`Denied: ${words}`]),
  );
});
