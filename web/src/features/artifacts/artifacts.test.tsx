import { QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import { liveArtifacts } from "@/projection/vitals";
import { navigate, useRoute } from "@/shell/route";
import { eventLog } from "@/state/log";
import { resetUi, setUi, useUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import { History } from "../../../tests/events";
import { come } from "../../../tests/fold";
import { bodyOf, BLANK, mistakesOf } from "./draft";
import { counted, matches, readFilter, writeFilter } from "./filter";
import ArtifactsScreen from "./screen";
import { uploadFiles, useUploads } from "./uploads";

const ME = {
  name: "ada",
  role: "operator",
  tenant: "default",
  tenants: ["default"],
  csrf_token: "t",
  features: [],
  version: "1",
} as const;

interface Asked {
  readonly method: string;
  readonly url: string;
  readonly body: unknown;
}

let asked: Asked[] = [];
let answers: Record<string, { status: number; body: unknown }> = {};

function artifact(history: History, id: string, kind: string, owner: string): void {
  history.add(`artifact:${id}`, "artifact.written", {
    id,
    kind,
    version: 1,
    owner,
    creator: owner,
    media: "text",
    size_bytes: 2048,
    access: null,
    content: "b:1",
  });
}

beforeEach(() => {
  asked = [];
  answers = {};
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    const body = typeof init.body === "string" ? (JSON.parse(init.body) as unknown) : null;
    asked.push({ method: init.method ?? "GET", url, body });
    const found = Object.entries(answers).find(([part]) => url.includes(part))?.[1];
    const answer = found ?? { status: 200, body: { items: [], next: null, kinds: ["document", "report"] } };
    return Promise.resolve(new Response(JSON.stringify(answer.body), { status: answer.status }));
  });
  // The table mounts what fits, and jsdom has no layout.
  vi.spyOn(Element.prototype, "clientHeight", "get").mockReturnValue(600);
  vi.spyOn(Element.prototype, "clientWidth", "get").mockReturnValue(800);
  queryClient.clear();
  eventLog.clear();
  resetUi({ me: ME, session: "signed_in", live: "live" });
  useUploads.setState({ items: [] });
  const history = new History();
  artifact(history, "churn/table", "dataset", "churn/analyst");
  artifact(history, "churn/letter", "report", "churn/writer");
  artifact(history, "churn/analyst", "agent", "operator");
  come(history.events);
  navigate("/artifacts", { replace: true });
});

function Screen() {
  return <ArtifactsScreen id={useRoute().id} />;
}

function open(): void {
  render(
    <QueryClientProvider client={queryClient}>
      <Screen />
    </QueryClientProvider>,
  );
}

test("an address that names no artifact says so, and leads back to those that are there", async () => {
  navigate("/artifacts/nope", { replace: true });
  open();

  expect(await screen.findByText("There is no such artifact")).toBeDefined();
  expect(useUi.getState().selection).toBeNull();
  fireEvent.click(screen.getByRole("link", { name: "See all artifacts" }));
  expect(await screen.findByRole("table", { name: "Artifacts" })).toBeDefined();
});

describe("what is listed", () => {
  const all = () => liveArtifacts(eventLog.graph);
  const ids = (filter: Parameters<typeof matches>[1], hits: readonly string[] = []) =>
    matches(all(), filter, new Set(hits)).map((one) => one.artifact.id);

  test("what was made, unless another kind is asked for", () => {
    const none = { kind: "", owner: "", words: "" };
    expect(ids(none)).toEqual(["churn/letter", "churn/table"]);
    expect(ids({ ...none, kind: "all" })).toHaveLength(3);
    expect(ids({ ...none, kind: "agent" })).toEqual(["churn/analyst"]);
    expect(ids({ ...none, owner: "churn/writer" })).toEqual(["churn/letter"]);
  });

  test("names stand before contents, and contents never pass the other filters", () => {
    const filter = { kind: "", owner: "", words: "LETTER churn" };
    expect(ids(filter, ["churn/table", "churn/letter", "gone"])).toEqual(["churn/letter", "churn/table"]);
    expect(ids({ ...filter, kind: "report" }, ["churn/table"])).toEqual(["churn/letter"]);
  });

  test("an address keeps a filter, and choices are counted", () => {
    const filter = { kind: "report", owner: "", words: "a b" };
    expect(readFilter(writeFilter(filter))).toEqual(filter);
    expect(counted(all(), "kind")).toEqual([
      ["agent", 1],
      ["dataset", 1],
      ["report", 1],
    ]);
  });
});

test("a row shows the artifact in the inspector, and its address", async () => {
  const user = userEvent.setup();
  open();
  await user.click(screen.getByText("letter"));

  expect(useUi.getState().selection).toEqual({ kind: "artifact", id: "churn/letter" });
  expect(window.location.pathname).toBe("/artifacts/churn%2Fletter");
  await expectAccessible();
});

test("contents are searched by the server; a search that fails leaves what is found by name", async () => {
  const user = userEvent.setup();
  answers = { "q=refund": { status: 200, body: { items: [{ id: "churn/table" }], next: null, kinds: [] } } };
  open();
  const field = screen.getByRole("searchbox");
  await user.type(field, "refund");
  expect(await screen.findByText("found in its content")).toBeTruthy();

  answers = {
    "q=letter": { status: 400, body: { error: { code: "x", message: "No index", hint: "Wait." } } },
  };
  await user.clear(field);
  await user.type(field, "letter");
  expect((await screen.findByRole("alert")).textContent).toMatch(/No index Wait\./);
  expect(screen.getByText("letter")).toBeTruthy();
});

test("an artifact is written as it was typed, and a mistake is told before anything is sent", async () => {
  const user = userEvent.setup();
  answers = { "/api/v1/artifacts": { status: 201, body: { id: "notes/a", kinds: ["document"], items: [] } } };
  navigate("/artifacts?do=new", { replace: true });
  open();
  await user.click(screen.getByRole("button", { name: "Write version 1" }));
  expect(screen.getByText(/Give it an id/)).toBeTruthy();
  expect(asked.filter((one) => one.method === "POST")).toEqual([]);
  await expectAccessible();

  await user.type(screen.getByLabelText("Id"), "notes/a");
  await user.selectOptions(screen.getByLabelText("Content is"), "json");
  fireEvent.change(screen.getByLabelText("Content"), { target: { value: '{"a": [1]}' } });
  await user.click(screen.getByRole("button", { name: "Write version 1" }));

  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(asked.find((one) => one.method === "POST")?.body).toEqual({
    id: "notes/a",
    kind: "document",
    media: "json",
    content: { a: [1] },
    expected_version: 0,
  });
  expect(useUi.getState().selection).toEqual({ kind: "artifact", id: "notes/a" });
});

test("drafts: what is no JSON and ids that name parts are mistakes; text may be anything", () => {
  expect(mistakesOf({ ...BLANK, id: "a@1" }).id).toMatch(/neither # nor @/);
  expect(mistakesOf({ ...BLANK, id: "a", media: "json", content: "{" }).content).toMatch(/no JSON/);
  expect(mistakesOf({ ...BLANK, id: "a", content: "{" })).toEqual({});
  expect(bodyOf({ ...BLANK, id: " a ", access: "private" })).toMatchObject({ id: "a", access: "private" });
});

test("a viewer is told why, and drops nothing", () => {
  setUi({ me: { ...ME, role: "viewer" } });
  open();
  const button = screen.getByRole("button", { name: "Upload files" });
  expect(button.getAttribute("aria-description")).toMatch(/viewer/);
  fireEvent.drop(screen.getByRole("searchbox"), {
    dataTransfer: { types: ["Files"], files: [new File(["x"], "a.txt")] },
  });
  expect(useUploads.getState().items).toEqual([]);
});

test("files are sent one by one: progress, what they became, and what was refused", async () => {
  const sent: string[] = [];
  class Request {
    readonly upload: { onprogress: ((event: { loaded: number; total: number }) => void) | null } = {
      onprogress: null,
    };
    onload: (() => void) | null = null;
    onerror: (() => void) | null = null;
    status = 0;
    responseText = "";
    open(): void {}
    setRequestHeader(): void {}
    send(form: FormData): void {
      const { name } = form.get("file") as File;
      sent.push(name);
      this.upload.onprogress?.({ loaded: 1, total: 2 });
      const refused = name === "bad.csv";
      this.status = refused ? 422 : 201;
      this.responseText = JSON.stringify(
        refused
          ? { error: { code: "invalid", message: "bad.csv has no rows", hint: "Add some." } }
          : { items: [{ id: `uploads/${name}`, kind: "dataset", is_new: true }] },
      );
      queueMicrotask(() => this.onload?.());
    }
  }
  vi.stubGlobal("XMLHttpRequest", Request);
  const large = new File(["x"], "large.csv");
  Object.defineProperty(large, "size", { value: 5 * 1024 * 1024 });
  answers = { "/api/v1/server": { status: 200, body: { upload_bytes_max: 5 * 1024 * 1024 } } };
  open();
  expect(await screen.findByText("Drop files here, up to 5 MiB each")).toBeTruthy();
  uploadFiles([new File(["a"], "good.csv"), large, new File(["b"], "bad.csv")]);

  expect(await screen.findByRole("button", { name: "uploads/good.csv" })).toBeTruthy();
  expect(await screen.findByText(/bad\.csv has no rows\. Add some\./)).toBeTruthy();
  expect(screen.getByText(/a file may have 5 MiB/)).toBeTruthy();
  expect(sent).toEqual(["good.csv", "bad.csv"]);
  await expectAccessible();

  setUi({ me: { ...ME, tenant: "other" } });
  await waitFor(() => expect(screen.queryByText("uploads/good.csv")).toBeNull());
});
