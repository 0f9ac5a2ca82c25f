import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { type ReactNode, useState } from "react";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { expectAccessible } from "../../tests/axe";
import { compact, dollars } from "./amounts";
import { Badge, Pill, Status } from "./Badge";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { EmptyState } from "./EmptyState";
import { ErrorState } from "./ErrorState";
import { IconButton } from "./IconButton";
import { CloseIcon } from "./icons/icons";
import { Menu } from "./Menu";
import { Meter } from "./Meter";
import { Resizer } from "./Resizer";
import { Ring } from "./Ring";
import { Select } from "./Select";
import { Skeleton } from "./Skeleton";
import { Slider } from "./Slider";
import { Split } from "./Split";
import { Switch } from "./Switch";
import { type Column, Table } from "./Table";
import { useOneStop } from "./useOneStop";
import { Tabs } from "./Tabs";
import { TextField } from "./TextField";
import { Toasts } from "./Toasts";
import { VisuallyHidden } from "./VisuallyHidden";

const nothing = () => undefined;

interface Agent {
  readonly name: string;
  readonly cost: number;
}

const COLUMNS: readonly Column<Agent>[] = [
  { id: "name", label: "Agent", cell: (agent) => agent.name, sortBy: (agent) => agent.name },
  { id: "cost", label: "Cost", cell: (agent) => agent.cost, sortBy: (agent) => agent.cost, align: "right" },
  { id: "note", label: "Note", cell: () => "-" },
];

const AGENTS: readonly Agent[] = [
  { name: "writer", cost: 12 },
  { name: "analyst", cost: 118 },
];

const EACH: readonly (readonly [name: string, element: ReactNode])[] = [
  [
    "Button",
    <Button key="a" busy>
      Plan
    </Button>,
  ],
  ["IconButton", <IconButton key="a" label="Close" icon={<CloseIcon />} pressed />],
  [
    "Tabs",
    <Tabs
      key="a"
      label="Console"
      tabs={[
        { id: "a", label: "Live", content: "x" },
        { id: "b", label: "Ledger", content: "y" },
      ]}
      selected="a"
      onSelect={nothing}
      aside="following"
    />,
  ],
  [
    "Slider",
    <Slider
      key="a"
      label="Budget"
      value={60}
      min={0}
      max={100}
      used={20}
      valueText="$0.60, $0.40 left"
      onChange={nothing}
    />,
  ],
  [
    "Switch",
    <Switch
      key="a"
      label="web_fetch"
      checked={false}
      why="off: no network grant"
      onChange={nothing}
      disabled
    />,
  ],
  [
    "Dialog",
    <Dialog key="a" title="Plan" onClose={nothing} footer={<Button>Launch</Button>}>
      text
    </Dialog>,
  ],
  ["Menu", <Menu key="a" label="More" items={[{ id: "x", label: "Pause", run: nothing }]} />],
  [
    "TextField",
    <TextField key="a" label="Goal" hint="One sentence." error="Say what is wanted." defaultValue="" />,
  ],
  ["TextField of several lines", <TextField key="a" label="Note" rows={3} bare />],
  [
    "Select",
    <Select
      key="a"
      label="Theme"
      value="dark"
      options={[{ value: "dark", label: "Dark" }]}
      onChange={nothing}
      hint="Of this browser."
    />,
  ],
  [
    "Badge, Pill and Status",
    <p key="a">
      <Badge count={3} label="approvals" tone="warn" /> <Pill tone="agent">decision</Pill>{" "}
      <Status tone="money">done</Status>
    </p>,
  ],
  ["Ring", <Ring key="a" n={3} m={5} label="iteration" />],
  ["Meter", <Meter key="a" label="Context" value={7} max={10} valueText="7 of 10" />],
  ["Table", <Table key="a" label="Agents" columns={COLUMNS} rows={AGENTS} rowId={(one) => one.name} />],
  [
    "Toasts",
    <Toasts key="a" notes={[{ id: 1, tone: "bad", title: "No", advice: "Retry." }]} onClose={nothing} />,
  ],
  [
    "EmptyState",
    <EmptyState key="a" title="Nothing yet">
      Give a goal.
    </EmptyState>,
  ],
  ["ErrorState", <ErrorState key="a" title="It broke" advice="Reload." onRetry={nothing} />],
  ["Skeleton", <Skeleton key="a" label="runs" />],
  ["Split", <Split key="a" label="Width of the log" first="a" second="b" />],
  ["VisuallyHidden", <VisuallyHidden key="a">for ears</VisuallyHidden>],
];

test.each(EACH)("%s is accessible", async (_name, element) => {
  render(<main>{element}</main>);

  await expectAccessible();
});

describe("Tabs", () => {
  function Console() {
    const [selected, setSelected] = useState("a");
    return (
      <Tabs
        label="Console"
        tabs={["a", "b", "c"].map((id) => ({ id, label: id, content: `panel ${id}` }))}
        selected={selected}
        onSelect={setSelected}
      />
    );
  }

  test("are one stop for the Tab key and move by arrows, Home and End", async () => {
    const user = userEvent.setup();
    render(<Console />);
    await user.tab();
    expect(screen.getByRole("tab", { name: "a" })).toBe(document.activeElement);

    await user.keyboard("{ArrowLeft}");
    expect(screen.getByRole("tab", { name: "c" })).toBe(document.activeElement);
    expect(screen.getByRole("tabpanel").textContent).toBe("panel c");

    await user.keyboard("{Home}{ArrowRight}");
    expect(screen.getByRole("tab", { name: "b" }).getAttribute("aria-selected")).toBe("true");
    await user.tab();
    expect(screen.getByRole("tabpanel")).toBe(document.activeElement);
  });
});

describe("Dialog", () => {
  function Ask({ onClose }: { readonly onClose: () => void }) {
    const [isOpen, setOpen] = useState(false);
    const close = () => {
      setOpen(false);
      onClose();
    };
    return (
      <div id="root">
        <Button onClick={() => setOpen(true)}>Open</Button>
        {isOpen && (
          <Dialog title="Plan" onClose={close} footer={<Button>Launch</Button>}>
            <input aria-label="Goal" data-autofocus />
          </Dialog>
        )}
      </div>
    );
  }

  test("takes the focus, keeps it, and gives it back on Escape", async () => {
    const user = userEvent.setup();
    const onClose = vi.fn();
    render(<Ask onClose={onClose} />);
    const opener = screen.getByRole("button", { name: "Open" });
    await user.click(opener);
    expect(screen.getByLabelText("Goal")).toBe(document.activeElement);
    expect(document.getElementById("root")?.inert).toBe(true);

    const dialog = screen.getByRole("dialog", { name: "Plan" });
    const stops: (string | null)[] = [];
    for (let n = 0; n < 4; n += 1) {
      await user.tab();
      expect(dialog.contains(document.activeElement)).toBe(true);
      stops.push(
        document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? null,
      );
    }
    expect(stops).toEqual(["Launch", "Close", "Goal", "Launch"]);
    await user.tab({ shift: true });
    await user.tab({ shift: true });
    await user.tab({ shift: true });
    expect(document.activeElement?.textContent).toBe("Launch");

    await user.keyboard("{Escape}");
    expect(onClose).toHaveBeenCalledOnce();
    expect(screen.queryByRole("dialog")).toBeNull();
    expect(opener).toBe(document.activeElement);
    expect(document.getElementById("root")?.inert).toBe(false);
  });
});

describe("Menu", () => {
  test("opens by keyboard, moves by arrows and letters, runs what is chosen, and says why something is off", async () => {
    const user = userEvent.setup();
    const pause = vi.fn();
    const fork = vi.fn();
    render(
      <Menu
        label="Run"
        items={[
          { id: "pause", label: "Pause", run: pause },
          { id: "stop", label: "Stop", run: nothing },
          { id: "fork", label: "Fork", run: fork, disabled: true, why: "It has no steps." },
        ]}
      />,
    );
    await user.tab();
    await user.keyboard("{ArrowDown}");
    expect(screen.getByRole("menuitem", { name: "Pause" })).toBe(document.activeElement);
    await user.keyboard("f");
    expect(document.activeElement?.textContent).toContain("It has no steps.");
    await user.keyboard("{Enter}");
    expect(fork).not.toHaveBeenCalled();

    await user.keyboard("{ArrowDown}{Enter}");
    expect(pause).toHaveBeenCalledOnce();
    expect(screen.queryByRole("menu")).toBeNull();
    expect(screen.getByRole("button", { name: "Run" })).toBe(document.activeElement);
  });
});

test("a switch tells its state and its reason, and toggles by keyboard", async () => {
  const user = userEvent.setup();
  const onChange = vi.fn();
  render(<Switch label="web_fetch" checked={false} why="off: no network grant" onChange={onChange} />);
  const control = screen.getByRole("switch", { name: "web_fetch", description: "off: no network grant" });
  control.focus();
  await user.keyboard(" ");

  expect(control.getAttribute("aria-checked")).toBe("false");
  expect(onChange).toHaveBeenCalledWith(true);
});

test("a slider is a native range that says its value and what is used", () => {
  const { container } = render(
    <Slider
      label="Budget"
      value={60}
      min={0}
      max={120}
      used={30}
      valueText="$0.60, $0.30 left"
      onChange={nothing}
    />,
  );
  const range = screen.getByRole("slider", { name: "Budget" });

  expect(range.getAttribute("type")).toBe("range");
  expect(range.getAttribute("aria-valuetext")).toBe("$0.60, $0.30 left; used 30");
  expect(container.querySelector<HTMLElement>("[data-used]")?.style.width).toBe("25%");
});

function Lines({ names }: { readonly names: readonly string[] }) {
  return (
    <ul {...useOneStop<HTMLUListElement>()}>
      {names.map((name) => (
        <li key={name}>
          <a href={`/${name}`} aria-current={name === "b" ? "page" : undefined}>
            {name}
          </a>
        </li>
      ))}
    </ul>
  );
}

test("a list of links is one stop of Tab, at what is current or had the focus last", async () => {
  const user = userEvent.setup();
  const { rerender } = render(<Lines names={["a", "b", "c"]} />);
  await user.tab();
  expect(document.activeElement?.textContent).toBe("b");
  await user.keyboard("{ArrowDown}");
  expect(document.activeElement?.textContent).toBe("c");
  await user.keyboard("{Home}{ArrowUp}");
  expect(document.activeElement?.textContent).toBe("a");

  rerender(<Lines names={["new", "a", "b"]} />);
  const stops = screen.getAllByRole("link").filter((link) => link.tabIndex === 0);
  expect(stops.map((link) => link.textContent)).toEqual(["a"]);
  await user.tab();
  expect(document.activeElement).toBe(document.body);
});

describe("Table", () => {
  const order = () =>
    screen
      .getAllByRole("row")
      .slice(1)
      .map((row) => within(row).getAllByRole("cell")[0]?.textContent);

  beforeEach(() => {
    vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(400);
    vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(800);
  });

  test("sorts up, down and back by the head of a column", async () => {
    const user = userEvent.setup();
    render(<Table label="Agents" columns={COLUMNS} rows={AGENTS} rowId={(one) => one.name} />);
    expect(order()).toEqual(["writer", "analyst"]);

    await user.click(screen.getByRole("button", { name: "Agent" }));
    expect(order()).toEqual(["analyst", "writer"]);
    expect(screen.getByRole("columnheader", { name: "Agent" }).getAttribute("aria-sort")).toBe("ascending");
    await user.click(screen.getByRole("button", { name: "Cost" }));
    await user.click(screen.getByRole("button", { name: "Cost" }));
    expect(order()).toEqual(["analyst", "writer"]);
    await user.click(screen.getByRole("button", { name: "Cost" }));
    expect(order()).toEqual(["writer", "analyst"]);
    expect(screen.queryByRole("button", { name: "Note" })).toBeNull();
  });

  test("mounts few of ten thousand rows and tells how many there are", () => {
    const rows = Array.from({ length: 10_000 }, (_, n) => ({ name: `agent ${n}`, cost: n }));
    render(<Table label="Agents" columns={COLUMNS} rows={rows} rowId={(one) => one.name} />);

    expect(screen.getAllByRole("row").length).toBeGreaterThan(5);
    expect(screen.getAllByRole("row").length).toBeLessThan(60);
    expect(screen.getByRole("table").getAttribute("aria-rowcount")).toBe("10001");
  });

  test("is one stop of Tab, in which the arrows move", async () => {
    const user = userEvent.setup();
    render(
      <Table
        label="Agents"
        columns={COLUMNS}
        rows={AGENTS}
        rowId={(one) => one.name}
        onSelect={vi.fn()}
        selected="analyst"
      />,
    );
    const [, writer, analyst] = screen.getAllByRole("row");
    expect([writer?.tabIndex, analyst?.tabIndex]).toEqual([-1, 0]);

    analyst?.focus();
    await user.keyboard("{ArrowUp}");
    expect(document.activeElement).toBe(writer);
    expect([writer?.tabIndex, analyst?.tabIndex]).toEqual([0, -1]);
    await user.keyboard("{End}");
    expect(document.activeElement).toBe(analyst);
  });

  test("opens a row by click and by Enter", async () => {
    const user = userEvent.setup();
    const onSelect = vi.fn();
    render(
      <Table
        label="Agents"
        columns={COLUMNS}
        rows={AGENTS}
        rowId={(one) => one.name}
        onSelect={onSelect}
        selected="analyst"
      />,
    );
    await user.click(screen.getByText("writer"));
    screen.getAllByRole("row")[2]?.focus();
    await user.keyboard("{Enter}");

    expect(onSelect.mock.calls.map(([row]) => (row as Agent).name)).toEqual(["writer", "analyst"]);
  });
});

test("a line between panes moves by arrows, Home and End, within its bounds", async () => {
  const user = userEvent.setup();
  function Drawer() {
    const [height, setHeight] = useState(200);
    return (
      <Resizer
        label="Height"
        orientation="horizontal"
        value={height}
        min={100}
        max={300}
        perPx={-1}
        step={60}
        onChange={setHeight}
      />
    );
  }
  render(<Drawer />);
  const line = screen.getByRole("separator", { name: "Height" });
  const value = () => Number(line.getAttribute("aria-valuenow"));
  line.focus();

  await user.keyboard("{ArrowUp}");
  expect(value()).toBe(260);
  await user.keyboard("{ArrowUp}");
  expect(value()).toBe(300);
  await user.keyboard("{Home}{ArrowDown}");
  expect(value()).toBe(100);
  await user.keyboard("{End}");
  expect(value()).toBe(300);
});

test("an error stays until it is dismissed, and is announced", async () => {
  const user = userEvent.setup();
  const onClose = vi.fn();
  render(
    <Toasts
      notes={[{ id: 7, tone: "bad", title: "m1/x: it has ended", advice: "Retry it." }]}
      onClose={onClose}
    />,
  );
  expect(screen.getByText("m1/x: it has ended").closest("[aria-live=polite]")).not.toBeNull();
  await user.click(screen.getByRole("button", { name: "Dismiss" }));

  expect(onClose).toHaveBeenCalledWith(7);
});

test("amounts are exact where they are small and short where they are large", () => {
  expect([0, 120, 412_000, 2_000_000, 12_400_000, -41_000, 1_234_567_000_000].map(dollars)).toEqual([
    "$0.00",
    "$0.000120",
    "$0.412",
    "$2.000",
    "$12.40",
    "-$0.041",
    "$1,234,567.00",
  ]);
  expect([812, 14_230, 999_960, 3_100_000].map(compact)).toEqual(["812", "14.2k", "1.0M", "3.1M"]);
});
