import { expect, test, vi } from "vitest";
import { foldTurn, NEW_TURN, type Turn } from "@/projection/turn";
import { TurnStream } from "./turnStream";

function answer(...chunks: readonly string[]): Response {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      chunks.forEach((chunk) => controller.enqueue(encoder.encode(chunk)));
      controller.close();
    },
  });
  return new Response(body, { status: 200 });
}

const data = (event: object): string => `data: ${JSON.stringify(event)}\n\n`;

test("a stream that breaks goes on after the newest stored event, and ends with the run", async () => {
  const asked: string[] = [];
  const finished = data({ seq: 3, type: "run.finished", at_us: 9, status: "completed" });
  const answers = [
    answer(
      data({ type: "run", run_id: "t/r000001" }),
      "id: 1\nevent: main_llm.started\n",
      data({ seq: 1, type: "main_llm.started", at_us: 1, step: "m" }),
      ": beat\n\n",
      data({ seq: null, type: "main_llm.delta", at_us: null, offset: 0, text: "Hel" }).slice(0, 20),
      data({ seq: null, type: "main_llm.delta", at_us: null, offset: 0, text: "Hel" }).slice(20),
    ),
    answer(data({ seq: null, type: "main_llm.delta", at_us: null, offset: 0, text: "Hello" }), finished),
  ];
  let turn: Turn = NEW_TURN;

  await new Promise<void>((done) => {
    new TurnStream({
      chat: "t",
      run: "t/r000001",
      branch: "main",
      onEvents: (events) => (turn = foldTurn(turn, events)),
      onEnd: (error) => {
        expect(error).toBeNull();
        done();
      },
      fetch: (url) => {
        asked.push(String(url));
        return Promise.resolve(answers.shift() ?? answer());
      },
      later: (task) => {
        queueMicrotask(task);
        return () => undefined;
      },
    }).start();
  });

  expect(turn.text).toBe("Hello");
  expect(turn.status).toBe("completed");
  expect(asked).toEqual([
    "/api/v1/sessions/t/events?run_id=t%2Fr000001&branch=main&after=0",
    "/api/v1/sessions/t/events?run_id=t%2Fr000001&branch=main&after=1",
  ]);
});

test("a refusal is told and not asked again; a failing server is", async () => {
  const later = vi.fn((task: () => void) => {
    queueMicrotask(task);
    return () => undefined;
  });
  const answers = [new Response("", { status: 503 }), new Response("{}", { status: 404 })];

  const error = await new Promise((done) => {
    new TurnStream({
      chat: "t",
      run: "x",
      branch: "main",
      onEvents: () => undefined,
      onEnd: done,
      fetch: () => Promise.resolve(answers.shift() ?? answer()),
      later,
    }).start();
  });

  expect(later).toHaveBeenCalledTimes(1);
  expect(error).toMatchObject({ status: 404 });
});

test("who stops hears nothing more", async () => {
  const onEvents = vi.fn();
  let open: (response: Response) => void = () => undefined;
  const stream = new TurnStream({
    chat: "t",
    run: "x",
    branch: "main",
    onEvents,
    onEnd: onEvents,
    fetch: () => new Promise((resolve) => (open = resolve)),
  });
  stream.start();
  stream.stop();
  open(answer(data({ seq: 1, type: "run.finished", at_us: 1 })));
  await Promise.resolve();
  await Promise.resolve();
  expect(onEvents).not.toHaveBeenCalled();
});
