import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { madeArtifacts } from "@/projection/vitals";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { useGraph } from "@/state/log";
import { ActionButton } from "@/shell/ActionButton";
import { Choice } from "../parts/Choice";
import { Part } from "../parts/Part";
import { RefButton } from "../parts/RefButton";

interface PoolProps {
  readonly membrane: Shape<"MembraneShown">;
  /** What is shared by the events; without them the server's first page counts. */
  readonly ids: ReadonlySet<string> | undefined;
}

const ROWS_MAX = 200;

/** What the members may read: more of it, or less. */
export function Pool({ membrane, ids }: PoolProps) {
  const graph = useGraph();
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const titles = new Map(membrane.shared.map((one) => [one.id, one.title]));
  const shared = [...(ids ?? titles.keys())];
  const others = madeArtifacts(graph)
    .filter((one) => !shared.includes(one.id))
    .slice(0, ROWS_MAX);
  const post = (artifact: string, verb: "share" | "unshare", done: string) =>
    void attempt(() => api.post(`${path("membranes", membrane.id)}/${verb}`, { artifact }), done);
  return (
    <Part title="Shared with all members" aside={String(shared.length)}>
      {shared.length === 0 && (
        <p className="text-ink-2">Nothing yet: what members make is shared by itself.</p>
      )}
      <ul className="flex flex-col gap-1">
        {shared.slice(0, ROWS_MAX).map((id) => {
          const one = graph.artifacts.get(id);
          return (
            <li key={id} className="flex items-center justify-between gap-2">
              <span className="min-w-0">
                <RefButton
                  kind="artifact"
                  to={id}
                  label={one?.title ?? titles.get(id) ?? id}
                  className="font-medium"
                />
                <span className="num block break-all text-ink-3">
                  {id}
                  {one !== undefined && ` · v${one.version}`}
                </span>
              </span>
              <ActionButton
                label="Unshare"
                size="small"
                busy={busy}
                may={may}
                name={`Unshare ${id}`}
                onClick={() => post(id, "unshare", "Members can no longer read it.")}
              />
            </li>
          );
        })}
      </ul>
      {shared.length > ROWS_MAX && (
        <p className="text-12 text-ink-2">{shared.length - ROWS_MAX} more are shared.</p>
      )}
      <Choice
        label="Share an artifact"
        options={others.map((one) => ({ value: one.id, label: `${one.title} · ${one.id}` }))}
        verb="Share"
        busy={busy}
        may={may}
        onChoose={(id) => post(id, "share", "Members can read it from their next step on.")}
      />
    </Part>
  );
}
