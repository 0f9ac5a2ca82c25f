import { useState } from "react";
import { api, path } from "@/client/http";
import { liveMembranes } from "@/projection/vitals";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { useProjection } from "@/state/log";
import { ActionButton } from "@/shell/ActionButton";
import { Select } from "@/ui/Select";
import { RefButton } from "../parts/RefButton";

interface SharingProps {
  readonly id: string;
  readonly shared: readonly string[];
}

/** The membranes whose members may read it: more of them, or fewer. */
export function Sharing({ id, shared }: SharingProps) {
  const there = useProjection(liveMembranes);
  const [chosen, setChosen] = useState("");
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const others = there.filter((one) => !shared.includes(one.id));
  const target = others.find((one) => one.id === chosen) ?? others[0];
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
      {target !== undefined && (
        <div className="flex items-end gap-2">
          <Select
            label="Share in membrane"
            value={target.id}
            options={others.map((one) => ({ value: one.id, label: `${one.name} · ${one.id}` }))}
            onChange={setChosen}
            className="min-w-0 flex-1"
          />
          <ActionButton
            label="Share"
            busy={busy}
            may={may}
            onClick={() => post(target.id, "share", "Its members can read it from their next step on.")}
          />
        </div>
      )}
      {there.length === 0 && <p className="text-ink-2">There is no membrane yet; a goal makes one.</p>}
    </div>
  );
}
