import { api, path } from "@/client/http";
import { liveMembranes } from "@/projection/vitals";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { useProjection } from "@/state/log";
import { ActionButton } from "@/shell/ActionButton";
import { Choice } from "../parts/Choice";
import { RefButton } from "../parts/RefButton";

interface SharingProps {
  readonly id: string;
  readonly shared: readonly string[];
}

/** The membranes whose members may read it: more of them, or fewer. */
export function Sharing({ id, shared }: SharingProps) {
  const there = useProjection(liveMembranes);
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const others = there.filter((one) => !shared.includes(one.id));
  const post = (membrane: string, verb: "share" | "unshare", done: string) =>
    void attempt(() => api.post(`${path("membranes", membrane)}/${verb}`, { artifact: id }), done);
  return (
    <div className="flex flex-col gap-2">
      {shared.length === 0 && (
        <p className="text-ink-2">In none: agents other than its owner do not read it by membrane.</p>
      )}
      <ul className="flex flex-col gap-1">
        {shared.map((membrane) => (
          <li key={membrane} className="flex items-center justify-between gap-2">
            <RefButton kind="membrane" to={membrane} />
            <ActionButton
              label="Unshare"
              size="small"
              busy={busy}
              may={may}
              onClick={() => post(membrane, "unshare", "Its members can no longer read it.")}
            />
          </li>
        ))}
      </ul>
      <Choice
        label="Share in membrane"
        options={others.map((one) => ({ value: one.id, label: `${one.name} · ${one.id}` }))}
        verb="Share"
        busy={busy}
        may={may}
        onChoose={(id) => post(id, "share", "Its members can read it from their next step on.")}
      />
      {there.length === 0 && <p className="text-ink-2">There is no membrane yet; a goal makes one.</p>}
    </div>
  );
}
