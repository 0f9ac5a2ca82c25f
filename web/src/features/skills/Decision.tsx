import { useState } from "react";
import { api, path } from "@/client/http";
import { queryClient } from "@/client/queries";
import { unless } from "@/commands/command";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { ActionButton } from "@/shell/ActionButton";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { TextField } from "@/ui/TextField";
import { KEY, noApproval, type Skill, type SkillDetail } from "./words";

/** Approve or refuse the definition that is shown, and no other: its hash goes along. */
export function Decision({ skill }: { readonly skill: SkillDetail }) {
  const [note, setNote] = useState("");
  const [isRefusing, setRefusing] = useState(false);
  const { busy, attempt } = useAttempt();
  const may = useMayAct();
  const body = { hash: skill.hash, note: note.trim() };
  const verb = (name: "approve" | "refuse") => `${path("skills", skill.id)}/${name}`;

  const approve = async () => {
    const done = await attempt(
      () => api.post<Skill>(verb("approve"), body),
      () => ({ title: `${skill.skill} is approved.`, advice: "It stands in the next listing for agents." }),
    );
    if (!done) return;
    setNote("");
    void queryClient.invalidateQueries({ queryKey: KEY });
  };
  const refuse = async () => {
    const done = await attempt(
      () => api.post<Skill>(verb("refuse"), body),
      () => ({ title: `${skill.skill} is refused.`, advice: "Its next call is refused as well." }),
    );
    setRefusing(false);
    if (!done) return;
    setNote("");
    void queryClient.invalidateQueries({ queryKey: KEY });
  };

  return (
    <div className="flex shrink-0 flex-wrap items-end gap-2 rounded-card border border-line bg-panel p-3">
      <TextField
        label="Why (kept with the decision)"
        maxLength={10_000}
        value={note}
        disabled={!may.ok}
        onChange={(event) => setNote(event.target.value)}
        className="min-w-55 flex-1"
      />
      <ActionButton
        label="Refuse"
        variant="danger"
        may={unless(may, skill.status === "refused" && "It is refused already.")}
        onClick={() => setRefusing(true)}
      />
      <ActionButton
        label="Approve"
        variant="primary"
        busy={busy}
        may={unless(may, noApproval(skill))}
        onClick={() => void approve()}
      />
      {isRefusing && (
        <ConfirmDialog
          title={`Refuse ${skill.skill}?`}
          label="Refuse it"
          busy={busy}
          onConfirm={() => void refuse()}
          onClose={() => setRefusing(false)}
        >
          <p>
            Agents no longer see it, and their next call of it is refused. Approving this definition later
            brings it back.
          </p>
        </ConfirmDialog>
      )}
    </div>
  );
}
