// A program of somebody else: the official client of AG-UI, with a tool of its own, against a real server.
import process from "node:process";
import { HttpAgent } from "@ag-ui/client";

const { url, headers, tools, answers, forwardedProps } = JSON.parse(process.argv[2]);
const agent = new HttpAgent({ url, headers, threadId: "npm-1" });
agent.addMessage({ id: "u-1", role: "user", content: "Which colour?" });

for (let turn = 0; turn < 5; turn += 1) {
  await agent.runAgent({ runId: `run-${turn}`, tools, forwardedProps });
  const open = (agent.messages.at(-1)?.toolCalls ?? []).filter((call) => call.function.name in answers);
  if (open.length === 0) break;
  for (const call of open) {
    agent.addMessage({
      id: `t-${call.id}`,
      role: "tool",
      toolCallId: call.id,
      content: answers[call.function.name],
    });
  }
}
process.stdout.write(JSON.stringify(agent.messages));
