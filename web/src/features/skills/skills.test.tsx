import { QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import { navigate } from "@/shell/route";
import { eventLog } from "@/state/log";
import { resetUi, setUi, useUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import SkillsScreen from "./screen";
import { inOrder, noApproval, type SkillDetail } from "./words";

const ME = {
  name: "ada",
  role: "operator",
  tenant: "default",
  tenants: ["default"],
  csrf_token: "t",
  features: [],
  version: "1",
} as const;

const HASH = "12047466ebeaf888";

function skill(fields: Partial<SkillDetail> = {}): SkillDetail {
  return {
    id: "mcp:desk/look_up",
    skill: "look_up",
    source: "mcp:desk",
    name: "look_up",
    origin: "tool",
    status: "parked",
    hash: HASH,
    active_hash: "e4433eae7695",
    decided_by: "skills",
    changed_us: 5,
    reasons: ["its definition has changed"],
    note: null,
    usable: true,
    definition: "description: <b>Look</b> a word up",
    ...fields,
  };
}

let shown = skill();
let asked: { url: string; body: unknown }[] = [];
let refusal: object | null = null;

beforeEach(() => {
  shown = skill();
  asked = [];
  refusal = null;
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    if (init.method === "POST") {
      asked.push({ url, body: JSON.parse(String(init.body)) as unknown });
      if (refusal !== null) return Promise.resolve(new Response(JSON.stringify(refusal), { status: 409 }));
      shown = skill({ status: url.endsWith("/approve") ? "active" : "refused", decided_by: "user:ada" });
    }
    const body = url.includes("/diff")
      ? { diff: "-old\n+new", files: [{ path: "run.py", change: "changed" }] }
      : url.includes("/skills?")
        ? { items: [shown], next: null }
        : shown;
    return Promise.resolve(new Response(JSON.stringify(body)));
  });
  queryClient.clear();
  eventLog.clear();
  resetUi({ me: ME, session: "signed_in", live: "live" });
  navigate("/skills/mcp%3Adesk%2Flook_up", { replace: true });
});

async function open(): Promise<void> {
  render(
    <QueryClientProvider client={queryClient}>
      <SkillsScreen id="mcp:desk/look_up" />
    </QueryClientProvider>,
  );
  await screen.findByRole("region", { name: "Definition" });
}

test("a parked skill tells why, what changed, and its definition as text", async () => {
  await open();
  expect(screen.getByText("its definition has changed")).toBeTruthy();
  expect(await screen.findByText("+new")).toBeTruthy();
  expect(screen.getByText("run.py")).toBeTruthy();
  expect(screen.getByText(/<b>Look<\/b>/)).toBeTruthy();
  await expectAccessible();
});

test("approving decides about the definition that was looked at", async () => {
  const user = userEvent.setup();
  await open();
  await user.type(screen.getByLabelText(/^Why .kept/), "looked at it");
  await user.click(screen.getByRole("button", { name: "Approve" }));

  await waitFor(() => expect(screen.getAllByText("can be used").length).toBeGreaterThan(1));
  expect(asked).toEqual([
    {
      url: "/api/v1/skills/mcp%3Adesk%2Flook_up/approve",
      body: { hash: HASH, note: "looked at it" },
    },
  ]);
  expect(screen.getByRole("button", { name: "Approve" }).getAttribute("aria-description")).toMatch(/already/);
});

test("refusing asks first; a definition that is another one meanwhile is told", async () => {
  const user = userEvent.setup();
  refusal = { error: { code: "conflict", message: "it is another definition now", hint: "Look again." } };
  await open();
  await user.click(screen.getByRole("button", { name: "Refuse" }));
  await user.click(screen.getByRole("button", { name: "Refuse it" }));

  await waitFor(() =>
    expect(useUi.getState().toasts.at(-1)).toMatchObject({
      tone: "bad",
      title: "it is another definition now",
      advice: "Look again.",
    }),
  );
  expect(shown.status).toBe("parked");
});

test("viewers decide nothing; what cannot be used cannot be approved", async () => {
  setUi({ me: { ...ME, role: "viewer" } });
  await open();
  for (const name of ["Approve", "Refuse"]) {
    expect(screen.getByRole("button", { name }).getAttribute("aria-description")).toMatch(/viewer/);
  }
  expect(noApproval(skill({ usable: false }))).toMatch(/mend it/);
  expect(noApproval(skill())).toBeNull();
});

test("what waits for a person stands first", () => {
  const skills = [
    skill({ id: "a", status: "active", changed_us: 9 }),
    skill({ id: "b", changed_us: 1 }),
    skill({ id: "c", changed_us: 2 }),
  ];
  expect(inOrder(skills).map((one) => one.id)).toEqual(["c", "b", "a"]);
});
