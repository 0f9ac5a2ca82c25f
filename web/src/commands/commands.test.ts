import { beforeEach, describe, expect, test, vi } from "vitest";
import { churn, History } from "../../tests/events";
import { come, foldAll } from "../../tests/fold";
import { parseRoute } from "@/shell/route";
import { eventLog } from "@/state/log";
import { resetUi, useUi } from "@/state/ui";
import type { CommandState } from "./command";
import { isTyping, Keyboard, type KeyPress, SEQUENCE_MS } from "./keyboard";
import { pageActions } from "./pageActions";
import { allCommands, commandOf, commandState, keyboard, runCommand } from "./registry";
import { steered, targets } from "./runs";
import { search } from "./search";

const ME = {
  name: "ada",
  role: "operator",
  tenant: "default",
  tenants: ["default"],
  csrf_token: "t",
  features: [],
  version: "1",
} as const;

function press(key: string, more: Partial<KeyPress> = {}): KeyPress {
  return {
    key,
    code: /^[a-z]$/i.test(key) ? `Key${key.toUpperCase()}` : key,
    ctrlKey: false,
    metaKey: false,
    altKey: false,
    shiftKey: false,
    timeStamp: 0,
    ...more,
  };
}

describe("keys", () => {
  const keys = new Keyboard([
    ["mod+k", "palette"],
    ["g c", "canvas"],
    ["g s", "settings"],
    ["alt+p", "follow"],
    ["c", "alone"],
  ]);

  test("a combination, by Ctrl and by Cmd, and by place where Alt changes the letter", () => {
    expect(keys.press(press("k", { ctrlKey: true }))).toBe("palette");
    expect(keys.press(press("k", { metaKey: true }))).toBe("palette");
    expect(keys.press(press("π", { altKey: true, code: "KeyP" }))).toBe("follow");
    expect(keys.press(press("k"))).toBeNull();
  });

  test("a sequence within its time; later the second key stands alone", () => {
    expect(keys.press(press("g"))).toBeNull();
    expect(keys.press(press("s", { timeStamp: SEQUENCE_MS }))).toBe("settings");
    expect(keys.press(press("g"))).toBeNull();
    expect(keys.press(press("c", { timeStamp: SEQUENCE_MS + 1 }))).toBe("alone");
    expect(keys.press(press("g"))).toBeNull();
    expect(keys.press(press("x"))).toBeNull();
    expect(keys.press(press("s"))).toBeNull();
  });

  test("letters belong to the field that one types in, combinations do not", () => {
    expect(isTyping(document.createElement("input"), press("g"))).toBe(true);
    expect(isTyping(document.createElement("textarea"), press("k", { ctrlKey: true }))).toBe(false);
    expect(isTyping(document.createElement("button"), press("g"))).toBe(false);
  });

  test("two commands cannot want the same keys", () => {
    expect(
      () =>
        new Keyboard([
          ["g c", "a"],
          ["g c", "b"],
        ]),
    ).toThrow("both want g c");
  });
});

test("every command has a name of its own and the list of shortcuts has no clash", () => {
  const ids = allCommands.map((command) => command.id);

  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.every((id) => /^[a-z]+\.[a-z_]+$/.test(id))).toBe(true);
  expect(keyboard.press(press("k", { ctrlKey: true }))).toBe("palette.open");
});

test("the palette finds by words and by first letters, and puts what can be run first", () => {
  const yes = { ok: true } as const;
  const items = [
    { text: "Stop the report", enabled: { ok: false } },
    { text: "Go to Settings", enabled: yes },
    { text: "churn/report artifact", enabled: yes },
    { text: "Pause all", enabled: yes },
  ];

  expect(search("rep", items).map((item) => item.text)).toEqual(["churn/report artifact", "Stop the report"]);
  expect(search("gts", items)[0]?.text).toBe("Go to Settings");
  expect(search("zzz", items)).toEqual([]);
  expect(search("", items)).toHaveLength(4);
});

test("the palette has every button of the page: what is a command already once, what cannot be with its reason", () => {
  document.body.innerHTML = `
    <main><section aria-label="Where it stands">
      <button data-action aria-label="Retry figures">Retry</button>
      <button data-action aria-disabled="true" aria-description="It is at its end.">Raise</button>
      <button>no action</button></section>
      <button data-action>Pause all</button></main>`;
  const pressed: string[] = [];
  document.addEventListener("click", (event) => pressed.push((event.target as HTMLElement).textContent));

  const found = pageActions([{ label: "Pause all" }]);

  expect(found.map((one) => [one.label, one.group, one.enabled])).toEqual([
    ["Retry figures", "Where it stands", { ok: true }],
    ["Raise", "Where it stands", { ok: false, why: "It is at its end." }],
  ]);
  found[0]?.run();
  expect(pressed).toEqual(["Retry"]);
  document.body.innerHTML += `<div role="dialog"><button data-action>Launch</button></div>
    <div role="dialog"><input data-palette /><button data-action>Close</button></div>`;
  expect(pageActions([]).map((one) => one.label)).toEqual(["Launch"]);
  document.body.innerHTML = "";
});

describe("commands about runs", () => {
  const history = () =>
    churn()
      .add("run:other", "run.started", {})
      .add("run:done", "run.started", {})
      .add("run:done", "run.completed", {});

  function state(fields: Partial<CommandState["ui"]> = {}, events: History = history()): CommandState {
    resetUi({ me: ME, live: "live", ...fields });
    return { ui: useUi.getState(), graph: foldAll(events.events), route: parseRoute("/") };
  }

  test("are about the roots that can go on, or the chosen goal alone", () => {
    expect(targets(state()).map((run) => run.id)).toEqual(["other", "churn"]);
    expect(targets(state({ mission: "churn" })).map((run) => run.id)).toEqual(["churn"]);
  });

  test("say why they cannot run", () => {
    const why = (id: string, of: CommandState) => {
      const enabled = commandOf(id)?.enabled(of);
      return enabled === undefined || enabled.ok ? "" : enabled.why;
    };

    expect(why("run.pause_all", state())).toBe("");
    expect(why("run.step", state())).toMatch(/^Pause first/);
    expect(why("run.pause_all", state({ me: { ...ME, role: "viewer" } }))).toMatch(/viewer/);
    expect(why("run.pause_all", state({ travel: 3 }))).toMatch(/past/);
    expect(why("run.pause_all", state({ live: "offline" }))).toMatch(/offline/);
    expect(why("run.stop_all", state({}, new History()))).toBe("Nothing is running.");
  });

  test("know a goal of which all that works is paused: it goes on where it was paused", () => {
    const held = new History()
      .add("run:m", "run.started", { loop: "mission" })
      .add("run:m/a", "run.started", { parent: "m" })
      .add("run:m", "run.suspended", { status: "waiting" })
      .add("run:m/a", "run.paused", {});
    const ids = (events: History) => {
      const { open, going, paused } = steered(state({}, events));
      return [open, going, paused].map((runs) => runs.map((run) => run.id));
    };

    expect(ids(held)).toEqual([["m"], [], ["m/a"]]);
    expect(commandOf("run.pause_all")?.enabled(state({}, held)).ok).toBe(false);
    expect(commandOf("run.stop_all")?.enabled(state({}, held)).ok).toBe(true);

    held.add("run:m/b", "run.started", { parent: "m" });
    expect(ids(held)).toEqual([["m"], ["m"], ["m/a"]]);
  });
});

describe("running a command", () => {
  const asked: string[] = [];

  beforeEach(() => {
    asked.length = 0;
    resetUi({ me: ME, live: "live", session: "signed_in" });
    eventLog.clear();
    come(churn().add("run:m1/x", "run.started", {}).events);
    vi.stubGlobal("fetch", (url: string) => {
      asked.push(url);
      const refused = url.includes("m1%2Fx");
      const body = refused
        ? { error: { code: "run_ended", message: "it has ended", hint: "Retry it." } }
        : {};
      return Promise.resolve(new Response(JSON.stringify(body), { status: refused ? 409 : 200 }));
    });
  });

  test("asks the server for each run and tells what was refused, by name", async () => {
    await runCommand("run.pause_all");

    expect(asked).toEqual(["/api/v1/runs/m1%2Fx/pause", "/api/v1/runs/churn/pause"]);
    expect(useUi.getState().toasts).toEqual([
      expect.objectContaining({ tone: "bad", title: "m1/x: it has ended", advice: "Retry it." }),
    ]);
  });

  test("that cannot run now does nothing but say why", async () => {
    await runCommand("run.resume_all");

    expect(asked).toEqual([]);
    expect(useUi.getState().toasts[0]?.advice).toBe("Nothing is paused.");
  });

  test("by name changes what one sees", async () => {
    await runCommand("theme.light");
    await runCommand("go.settings");

    expect(useUi.getState().theme).toBe("light");
    expect(commandState().route.screen).toBe("settings");
  });
});
