import { chatOf } from "@/projection/chatCosts";
import { shortName } from "@/projection/event";
import type { Graph } from "@/projection/graph";
import { taskWords } from "@/projection/status";
import { CommandButton } from "@/shell/CommandButton";
import { TONE_OF } from "@/shell/meaning";
import { Status } from "@/ui/Badge";
import { Part } from "../parts/Part";
import { RefButton } from "../parts/RefButton";

/** A task whose events are not here yet. */
const UNKNOWN = { status: "pending", reason: "" } as const;

interface BelongingProps {
  readonly graph: Graph;
  readonly id: string;
}

/** The task of a run, or the chat it replied in; of a goal its tasks, agents and membranes. */
export function Belonging({ graph, id }: BelongingProps) {
  const mission = graph.missions.get(id);
  const isTask = graph.tasks.has(id);
  return (
    <>
      {isTask && (
        <Part title="Task">
          <RefButton kind="task" to={id} />
        </Part>
      )}
      {chatOf(graph.runs.get(id)) !== "" && (
        <Part title="Chat">
          <CommandButton id="chat.open_reply" label="Open its reply on a branch" />
        </Part>
      )}
      {mission !== undefined && (
        <>
          <Part title="Tasks" aside={String(mission.tasks.length)}>
            {mission.tasks.length === 0 && <p className="text-ink-2">Its plan waits to be launched.</p>}
            <ul className="flex flex-col gap-1">
              {mission.tasks.map((task) => {
                const { word, meaning } = taskWords(graph.tasks.get(task) ?? UNKNOWN);
                return (
                  <li key={task} className="flex justify-between gap-2">
                    <RefButton kind="task" to={task} label={shortName(task)} />
                    <Status tone={TONE_OF[meaning]}>{word}</Status>
                  </li>
                );
              })}
            </ul>
          </Part>
          <Part title="Agents and membranes">
            <ul className="flex flex-col gap-1">
              {mission.agents.map((agent) => (
                <li key={agent}>
                  <RefButton
                    kind="agent"
                    to={agent}
                    label={graph.agents.get(agent)?.name ?? shortName(agent)}
                  />
                </li>
              ))}
              {mission.membranes.map((membrane) => (
                <li key={membrane}>
                  <RefButton
                    kind="membrane"
                    to={membrane}
                    label={graph.membranes.get(membrane)?.name ?? shortName(membrane)}
                  />
                </li>
              ))}
            </ul>
          </Part>
        </>
      )}
    </>
  );
}
