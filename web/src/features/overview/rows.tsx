import { taskEndWords } from "@/canvas/words";
import type { ReactNode } from "react";
import { counted } from "@/projection/counted";
import type { Agent, Approval, Artifact, Graph, Membrane, Mission, Task } from "@/projection/graph";
import { shortName } from "@/projection/event";
import { goalStatus, tasksOf } from "@/projection/standing";
import { goalWords, runWords } from "@/projection/status";
import { TONE_OF } from "@/shell/meaning";
import { type SelectionKind, select, useUi } from "@/state/ui";
import { compact, dollars } from "@/ui/amounts";
import { Status } from "@/ui/Badge";
import { cx } from "@/ui/cx";
import { AgentIcon, ArtifactsIcon, MembraneIcon, TaskIcon, WarnIcon } from "@/ui/icons/icons";
import { Ring } from "@/ui/Ring";
import { clock } from "@/ui/time";

interface RowProps {
  readonly kind: SelectionKind;
  readonly id: string;
  readonly lead: ReactNode;
  readonly name: string;
  readonly detail: ReactNode;
  readonly aside?: ReactNode;
}

function Row({ kind, id, lead, name, detail, aside }: RowProps) {
  const isSelected = useUi((state) => state.selection?.kind === kind && state.selection.id === id);
  return (
    <li>
      <button
        type="button"
        aria-pressed={isSelected}
        onClick={() => select(kind, id)}
        className={cx(
          "flex min-h-11 w-full items-center gap-3 px-4 py-2 text-left -outline-offset-2 hover:bg-panel-2",
          isSelected && "bg-panel-2",
        )}
      >
        {lead}
        <span className="min-w-0 flex-1">
          <span className="block truncate font-medium">{name}</span>
          <span className="block truncate text-12 text-ink-2">{detail}</span>
        </span>
        {aside !== undefined && <span className="num shrink-0 text-ink-2">{aside}</span>}
      </button>
    </li>
  );
}

export function ApprovalRow({ approval }: { readonly approval: Approval }) {
  return (
    <Row
      kind="run"
      id={approval.runId}
      lead={
        <span className="text-warn">
          <WarnIcon />
        </span>
      }
      name={approval.question || approval.key}
      detail={approval.runId}
      aside={clock(approval.askedUs)}
    />
  );
}

export function MissionRow({ mission, graph }: { readonly mission: Mission; readonly graph: Graph }) {
  const run = graph.runs.get(mission.id);
  const words =
    run === undefined
      ? null
      : goalWords(goalStatus(tasksOf(graph, mission.id), run.status), mission.launchedUs !== null);
  return (
    <Row
      kind="mission"
      id={mission.id}
      lead={
        <span className="text-accent">
          <TaskIcon />
        </span>
      }
      name={run?.goal || mission.id}
      detail={words === null ? mission.id : <Status tone={TONE_OF[words.meaning]}>{words.word}</Status>}
      aside={counted(mission.tasks.length, "task")}
    />
  );
}

export function AgentRow({ agent, graph }: { readonly agent: Agent; readonly graph: Graph }) {
  const run = graph.runs.get(agent.runId);
  const words = run === undefined ? null : runWords(run.status);
  const tokens = agent.spend.inputTokens + agent.spend.outputTokens;
  return (
    <Row
      kind="agent"
      id={agent.id}
      lead={
        agent.iterationsMax > 0 ? (
          <Ring n={agent.iteration} m={agent.iterationsMax} label="iteration" />
        ) : (
          <span className="text-agent">
            <AgentIcon />
          </span>
        )
      }
      name={agent.name}
      detail={
        words === null ? (
          "has not worked yet"
        ) : (
          <Status tone={TONE_OF[words.meaning]}>
            {run?.status === "running" && run.doing !== "" ? run.doing : words.word}
          </Status>
        )
      }
      aside={`${dollars(agent.spend.microusd)} · ${compact(tokens)} tok`}
    />
  );
}

export function TaskRow({ task }: { readonly task: Task }) {
  const words = taskEndWords(task);
  return (
    <Row
      kind="task"
      id={task.id}
      lead={
        <span className="text-accent">
          <TaskIcon />
        </span>
      }
      name={task.goal || shortName(task.id)}
      detail={<Status tone={TONE_OF[words.meaning]}>{words.word}</Status>}
      aside={task.iterationsMax > 0 ? `${task.iteration} of ${task.iterationsMax}` : undefined}
    />
  );
}

export function ArtifactRow({ artifact }: { readonly artifact: Artifact }) {
  return (
    <Row
      kind="artifact"
      id={artifact.id}
      lead={
        <span className="text-artifact">
          <ArtifactsIcon />
        </span>
      }
      name={artifact.title}
      detail={`${artifact.kind} · ${artifact.owner}`}
      aside={`v${artifact.version}`}
    />
  );
}

export function MembraneRow({ membrane }: { readonly membrane: Membrane }) {
  return (
    <Row
      kind="membrane"
      id={membrane.id}
      lead={
        <span className="text-membrane">
          <MembraneIcon />
        </span>
      }
      name={membrane.name}
      detail={counted(membrane.members.size, "member")}
      aside={`${membrane.shared.size} shared`}
    />
  );
}
