import { api, path } from "@/client/http";
import { shortName } from "@/projection/event";
import { liveAgents } from "@/projection/vitals";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { useGraph } from "@/state/log";
import { ActionButton } from "@/shell/ActionButton";
import { Choice } from "../parts/Choice";
import { Part } from "../parts/Part";
import { RefButton } from "../parts/RefButton";

interface MembersProps {
  readonly id: string;
  readonly members: readonly string[];
}

/** Agents that read what is shared; who leaves loses the right at once. */
export function Members({ id, members }: MembersProps) {
  const graph = useGraph();
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const others = liveAgents(graph).filter((one) => one.version > 0 && !members.includes(one.id));
  const post = (agent: string, verb: "join" | "leave", done: string) =>
    void attempt(() => api.post(`${path("membranes", id)}/${verb}`, { agent }), done);
  return (
    <Part title="Members" aside={String(members.length)}>
      {members.length === 0 && (
        <p className="text-ink-2">Nobody yet: add an agent, or drag one in on the canvas.</p>
      )}
      <ul className="flex flex-col gap-1">
        {members.map((agent) => (
          <li key={agent} className="flex items-center justify-between gap-2">
            <span className="min-w-0">
              <RefButton
                kind="agent"
                to={agent}
                label={graph.agents.get(agent)?.name ?? shortName(agent)}
                className="font-medium"
              />
              <span className="num block break-all text-ink-3">{agent}</span>
            </span>
            <ActionButton
              label="Remove"
              size="small"
              busy={busy}
              may={may}
              name={`Remove ${agent}`}
              onClick={() => post(agent, "leave", "It can no longer read what is shared here.")}
            />
          </li>
        ))}
      </ul>
      <Choice
        label="Add an agent"
        options={others.map((one) => ({ value: one.id, label: `${one.name} · ${one.id}` }))}
        verb="Add"
        busy={busy}
        may={may}
        onChoose={(id) => post(id, "join", "It reads what is shared here from its next step on.")}
      />
    </Part>
  );
}
