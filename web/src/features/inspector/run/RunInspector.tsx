import { shortName } from "@/projection/event";
import { isFinal } from "@/projection/foldRuns";
import type { Graph, Run } from "@/projection/graph";
import { runWords, taskWords } from "@/projection/status";
import { Link } from "@/shell/Link";
import { TONE_OF } from "@/shell/meaning";
import { href } from "@/shell/route";
import { screenComponent } from "@/shell/screens";
import { useGraph } from "@/state/log";
import { compact, dollars } from "@/ui/amounts";
import { Status } from "@/ui/Badge";
import { EmptyState } from "@/ui/EmptyState";
import { RunsIcon } from "@/ui/icons/icons";
import { dayAndTime } from "@/ui/time";
import { Facts } from "../parts/Facts";
import { Head } from "../parts/Head";
import { Part } from "../parts/Part";
import { RefButton } from "../parts/RefButton";
import { RunControls } from "./RunControls";

/** A run, or a goal, which is one: where it stands, what it costs, and what belongs to it. */
export function RunInspector({ id }: { readonly id: string }) {
  const graph = useGraph();
  const run = graph.runs.get(id);
  if (run === undefined) {
    return (
      <EmptyState title="Not known here">
        There is no run {id} at the moment that you look at. Select another one, or go back to now.
      </EmptyState>
    );
  }
  const said = runWords(run.status);
  return (
    <>
      <Head
        icon={<RunsIcon />}
        name={shortName(id)}
        id={id}
        status={<Status tone={TONE_OF[said.meaning]}>{said.word}</Status>}
      >
        {!isFinal(run.status) && <RunControls run={run} />}
      </Head>
      <div className="border-t border-line">
        {run.goal !== "" && (
          <Part title="Goal">
            <p className="break-words">{run.goal}</p>
          </Part>
        )}
        <RunFacts run={run} />
        <Belonging graph={graph} id={id} />
      </div>
    </>
  );
}

function RunFacts({ run }: { readonly run: Run }) {
  return (
    <Part title="Run">
      {run.message !== "" && <p className="break-words text-ink-2">{run.message}</p>}
      <Facts
        rows={[
          ["Agent", run.agent !== "" && <RefButton kind="agent" to={run.agent} />],
          ["Model", run.model],
          ["Why", run.reason],
          ["Part of", run.parent !== "" && <RefButton kind="run" to={run.parent} />],
          ["Forked from", run.origin !== "" && <RefButton kind="run" to={run.origin} />],
          ["Began", dayAndTime(run.startedUs)],
          ["Ended", run.endedUs === null ? "" : dayAndTime(run.endedUs)],
          ["Spent, itself", `${dollars(run.spend.microusd)} in ${run.spend.calls} calls`],
          ["Tokens", `${compact(run.spend.inputTokens)} in, ${compact(run.spend.outputTokens)} out`],
        ].map(([name, value]) => [name as string, value === false ? "" : value] as const)}
      />
      {screenComponent("runs") !== undefined && (
        <Link to={href("runs", run.id)} className="text-accent underline">
          Its steps and prompts
        </Link>
      )}
    </Part>
  );
}

function Belonging({ graph, id }: { readonly graph: Graph; readonly id: string }) {
  const mission = graph.missions.get(id);
  const isTask = graph.tasks.has(id);
  return (
    <>
      {isTask && (
        <Part title="Task">
          <RefButton kind="task" to={id} />
        </Part>
      )}
      {mission !== undefined && (
        <>
          <Part title="Tasks" aside={String(mission.tasks.length)}>
            {mission.tasks.length === 0 && <p className="text-ink-2">Its plan waits to be launched.</p>}
            <ul className="flex flex-col gap-1">
              {mission.tasks.map((task) => {
                const { word, meaning } = taskWords(graph.tasks.get(task)?.status ?? "pending");
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
