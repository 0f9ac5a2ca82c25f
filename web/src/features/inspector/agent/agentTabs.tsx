import type { Shape } from "@/client/types";
import type { Tab } from "@/ui/Tabs";
import { CostsTab } from "./CostsTab";
import { MemoryTab } from "./MemoryTab";
import { NextPromptTab } from "./NextPromptTab";
import { SteeringTab } from "./SteeringTab";
import { TaskTab } from "./TaskTab";
import { ToolsTab } from "./ToolsTab";

/** The tabs of an agent, in the order of the design; `task` is what it works on, or did last. */
export function agentTabs(agent: Shape<"AgentShown">, task: string): readonly Tab[] {
  return [
    { id: "steering", label: "Steering", content: <SteeringTab key={agent.id} agent={agent} /> },
    { id: "task", label: "Task", content: <TaskTab key={agent.id} agent={agent} current={task} /> },
    { id: "tools", label: "Tools", content: <ToolsTab key={agent.id} agent={agent} /> },
    { id: "memory", label: "Memory", content: <MemoryTab key={agent.id} agent={agent} /> },
    { id: "next-prompt", label: "Next prompt", content: <NextPromptTab key={agent.id} agent={agent} /> },
    { id: "costs", label: "Costs", content: <CostsTab key={agent.id} agent={agent} /> },
  ];
}
