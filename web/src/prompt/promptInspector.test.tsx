import { QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { queryClient } from "@/client/queries";
import { promptSteps } from "@/projection/rowsPrompt";
import { History } from "../../tests/events";
import { PromptInspector } from "./PromptInspector";
import { PromptText } from "./PromptText";

const MANIFEST = { tokens: 300, sections: [], dropped: [], params: {}, scrubbed: {}, model: "m" };

function show(history: History, manifest: object = MANIFEST) {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(JSON.stringify(manifest))));
  queryClient.clear();
  const step = promptSteps(history.events).at(-1);
  if (step === undefined) throw new Error("no step");
  return render(
    <QueryClientProvider client={queryClient}>
      <PromptInspector step={step} agent="m/writer" />
    </QueryClientProvider>,
  );
}

test("one count of tokens is shown: our estimate until the provider has counted", async () => {
  const asked = () =>
    new History()
      .add("run:r", "run.started", {})
      .add("run:r", "context.assembled", { key: "c1/decision" })
      .add("run:r", "model.requested", { key: "c1/decision", model: "m" });
  const view = show(asked());
  await screen.findByText("300");
  expect(screen.getByText("no reply yet")).toBeTruthy();
  view.unmount();

  show(asked().add("run:r", "model.completed", { key: "c1/decision", input_tokens: 420, output_tokens: 9 }));
  expect(await screen.findByText(/420 tokens in/)).toBeTruthy();
  expect(screen.queryByText("300")).toBeNull();
});

test.each([
  ["erased", /What was sent is erased/],
  ["locked", /no vault key/],
])("of a prompt that is %s it says that, not to whom it went", async (gone, said) => {
  const history = new History()
    .add("run:r", "run.started", {})
    .add("run:r", "context.assembled", { key: "c1/decision" })
    .add("run:r", "model.requested", { key: "c1/decision", model: "m" });
  show(history, { ...MANIFEST, model: `[${gone}]` });
  expect(await screen.findByText(said)).toBeTruthy();
  expect(screen.queryByText(/Sent to/)).toBeNull();
});

test("a message shows its images as pictures and its PDFs as downloads, not as JSON", async () => {
  const medium = (blob: string, media_type: string, more: object = {}) => ({
    ...{ type: "media", text: "", data: { blob, media_type, size_bytes: 9120, pages: null, ...more } },
  });
  const content = [
    { type: "text", text: "What is it?", data: null },
    medium("b:one", "image/png"),
    medium("b:two", "application/pdf", { pages: 3 }),
  ];
  const request = JSON.stringify({ messages: [{ role: "user", content }] });
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(request)));
  queryClient.clear();
  render(
    <QueryClientProvider client={queryClient}>
      <PromptText runId="m/a" step="c1" />
    </QueryClientProvider>,
  );

  const picture = await screen.findByRole("img", { name: "In message 1, as the model was sent it" });
  expect(picture.getAttribute("src")).toBe("/api/v1/runs/m%2Fa/media/b%3Aone?step=c1");
  expect(screen.getByText("What is it?")).toBeTruthy();
  const links = screen.getAllByRole("link", { name: "Download" }).map((one) => one.getAttribute("href"));
  expect(links[1]).toBe("/api/v1/runs/m%2Fa/media/b%3Atwo?step=c1");
  expect(screen.getByText(/PDF \(application\/pdf, 3 pages, 9,120 bytes\)/)).toBeTruthy();
});
