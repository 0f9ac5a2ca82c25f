import { useState } from "react";
import { unless } from "@/commands/command";
import { api, path } from "@/client/http";
import type { Graph, Task } from "@/projection/graph";
import { liveAgents } from "@/projection/vitals";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { useGraph } from "@/state/log";
import { ActionButton } from "@/shell/ActionButton";
import { Select } from "@/ui/Select";
import { RefButton } from "../parts/RefButton";

/** Agents that could do it: those of its mission first. */
function choices(graph: Graph, task: Task): readonly { readonly value: string; readonly label: string }[] {
  const isNear = (mission: string) => Number(mission === task.mission);
  return liveAgents(graph)
    .filter((agent) => agent.version > 0 && !agent.id.startsWith("agents/"))
    .sort((a, b) => isNear(b.mission) - isNear(a.mission))
    .map((agent) => ({ value: agent.id, label: `${agent.name} · ${agent.id}` }));
}

/** Who is to do it; another one can be chosen while nobody works on it. */
export function Assign({ task }: { readonly task: Task }) {
  const graph = useGraph();
  const there = choices(graph, task);
  const [chosen, setChosen] = useState("");
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const isFree = task.status === "pending" || task.status === "blocked" || task.status === "failed";
  const value = there.some((one) => one.value === chosen) ? chosen : task.agent;
  return (
    <div className="flex flex-col gap-2">
      {task.agent === "" ? (
        <p className="text-ink-2">Nobody yet.</p>
      ) : (
        <RefButton kind="agent" to={task.agent} />
      )}
      {isFree && there.length > 0 && (
        <div className="flex items-end gap-2">
          <Select
            label="Assign to"
            value={value}
            options={task.agent === "" ? [{ value: "", label: "Choose an agent" }, ...there] : there}
            onChange={setChosen}
            className="min-w-0 flex-1"
          />
          <ActionButton
            label="Assign"
            busy={busy}
            may={unless(may, (value === task.agent || value === "") && "Choose another agent first.")}
            onClick={() =>
              void attempt(
                () => api.patch(path("tasks", task.id), { assigned_agent_id: value }),
                "It is assigned.",
              )
            }
          />
        </div>
      )}
    </div>
  );
}
