// A program of somebody else: the official client of AG-UI, with tools of its own, against a real server.
import process from "node:process";
import { HttpAgent } from "@ag-ui/client";

const asked = JSON.parse(process.argv[2]);
const { url, headers, tools, answers, forwardedProps, threadId = "npm-1", requests = 5, payload } = asked;
const initialMessages = asked.messages ?? [{ id: "u-1", role: "user", content: "Which colour?" }];
const agent = new HttpAgent({ url, headers, threadId, initialMessages });

let resume;
const interrupts = [];

for (let turn = 1; turn <= requests; turn += 1) {
  await agent.runAgent({ runId: `run-${turn}`, tools, forwardedProps, resume });
  interrupts.push(...agent.pendingInterrupts);
  resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload }));
  const given = new Set(agent.messages.map((message) => message.toolCallId));
  const open = agent.messages
    .flatMap((message) => message.toolCalls ?? [])
    .filter((call) => call.function.name in answers && !given.has(call.id));
  if (resume.length === 0) resume = undefined;
  if ((open.length === 0 && resume === undefined) || turn === requests) break;
  for (const call of open) {
    agent.addMessage({
      id: `t-${call.id}`,
      role: "tool",
      toolCallId: call.id,
      content: answers[call.function.name],
    });
  }
}
process.stdout.write(
  JSON.stringify(payload === undefined ? agent.messages : { messages: agent.messages, interrupts }),
);
