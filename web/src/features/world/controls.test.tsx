import { QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import type { World } from "@/client/worlds";
import { resetUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import { WorldHead } from "./WorldHead";

const ME = {
  name: "ada",
  role: "operator",
  tenant: "default",
  tenants: ["default"],
  csrf_token: "t",
  features: [],
  version: "0.1",
} as const;

const WORLD: World = {
  id: "m1",
  tick: 4,
  seed: 7,
  paused: false,
  parent: null,
  forked_at: null,
  agents: 2,
  artifacts: 3,
  scrip: 200,
  held: 0,
  open_offers: 0,
  sold: 0,
  settings: {},
  passing: null,
  failed: null,
};

let asked: string[] = [];

beforeEach(() => {
  asked = [];
  resetUi({ me: ME, session: "signed_in", live: "live" });
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    asked.push(`${init.method} ${url.replace("/api/v1", "")} ${String(init.body ?? "")}`.trim());
    return Promise.resolve(new Response(JSON.stringify(WORLD)));
  });
});

function show(world: World) {
  return render(
    <QueryClientProvider client={queryClient}>
      <WorldHead world={world} asOf={null} />
    </QueryClientProvider>,
  );
}

test("a step of a paused world resumes it for one tick and pauses it again", async () => {
  show({ ...WORLD, paused: true });
  expect(screen.getByText("Paused: no tick begins until it is resumed.")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Step" }));
  expect(asked).toEqual([
    "POST /worlds/m1/resume {}",
    'POST /worlds/m1/tick {"count":1}',
    "POST /worlds/m1/pause {}",
  ]);
  await expectAccessible();
});

test("many ticks are asked for by their number, and a wrong number says what is right", async () => {
  show(WORLD);
  const field = screen.getByLabelText("How many ticks");
  await userEvent.clear(field);
  await userEvent.type(field, "7{Enter}");
  expect(asked).toEqual(['POST /worlds/m1/run {"ticks":7}']);
  await userEvent.clear(field);
  const run = screen.getByRole("button", { name: "Run" });
  expect(run.getAttribute("aria-description")).toBe("Write a number from 1 to 1,000,000.");
  await userEvent.click(run);
  expect(asked).toHaveLength(1);
});

test("ticks on their way are told, and no other begins meanwhile", async () => {
  const passing = { asked: 40, passed: 3, tick: 7, acted: 6, rejected: 1, held: null };
  show({ ...WORLD, passing });
  expect(screen.getByText(/3 of 40 ticks passed, 6 actions, 1 refused/)).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Tick" }));
  expect(asked).toEqual([]);
  await userEvent.click(screen.getByRole("button", { name: "Pause" }));
  expect(asked).toEqual(["POST /worlds/m1/pause {}"]);
});

test("a viewer is told why nothing can be done, and nothing is sent", async () => {
  resetUi({ me: { ...ME, role: "viewer" }, session: "signed_in", live: "live" });
  show(WORLD);
  const tick = screen.getByRole("button", { name: "Tick" });
  expect(tick.getAttribute("aria-description")).toContain("viewer");
  await userEvent.click(tick);
  await userEvent.click(screen.getByRole("button", { name: "Pause" }));
  expect(asked).toEqual([]);
});
