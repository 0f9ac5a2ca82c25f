import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, inWords, path } from "@/client/http";
import { queryClient } from "@/client/queries";
import type { Shape } from "@/client/types";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { toast } from "@/state/ui";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { TextField } from "@/ui/TextField";
import type { Mistake } from "./api";
import { Mistakes } from "./Mistakes";
import { NEW_PROFILE } from "./newProfile";

interface ProfileDialogProps {
  /** Profile to begin with; "" for a new one. */
  readonly base: string;
  readonly onClose: () => void;
  readonly onSaved: (profile: string) => void;
}

/** A profile as JSON. Everything wrong with it is shown with its place; what is wrong is not stored. */
export function ProfileDialog({ base, onClose, onSaved }: ProfileDialogProps) {
  const id = base.split("@", 1)[0] ?? "";
  const found = useQuery({
    queryKey: ["profile", id],
    enabled: base !== "",
    queryFn: ({ signal }) => api.get<Shape<"ProfileShown">>(path("profiles", base), undefined, signal),
  });
  const [changed, setChanged] = useState<string | null>(null);
  const [mistakes, setMistakes] = useState<readonly Mistake[] | null>(null);
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const text = changed ?? (base === "" ? NEW_PROFILE : JSON.stringify(found.data?.profile ?? {}, null, 2));

  const check = async (): Promise<boolean> => {
    const answer = await api.post<Shape<"Validated">>("/profiles/validate", { profile: text });
    setMistakes(answer.errors);
    return answer.valid;
  };
  const save = async () => {
    if (!(await check())) return;
    const saved = await api.post<Shape<"ProfileSaved">>("/profiles", { profile: text });
    toast(`Stored as ${saved.ref}`, { tone: "good" });
    await queryClient.invalidateQueries({ queryKey: ["profiles"] });
    await queryClient.invalidateQueries({ queryKey: ["profile", saved.profile_id] });
    onSaved(saved.profile_id);
  };
  const failure = found.error === null ? null : inWords(found.error);
  return (
    <Dialog
      title={base === "" ? "A new profile" : `Profile ${base}`}
      width="wide"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button busy={busy} onClick={() => void attempt(check)}>
            Check
          </Button>
          <ActionButton
            label="Check and store"
            variant="primary"
            may={may}
            busy={busy}
            hint="A new version, in force at the next turn of each chat that follows it."
            onClick={() => void attempt(save)}
          />
        </>
      }
    >
      {failure !== null ? (
        <ErrorState title={failure.title} advice={failure.advice} onRetry={() => void found.refetch()} />
      ) : base !== "" && found.data === undefined ? (
        <Skeleton label="the profile" rows={10} />
      ) : (
        <div className="flex flex-col gap-3">
          <Mistakes mistakes={mistakes} />
          <TextField
            label="JSON"
            rows={18}
            spellCheck={false}
            data-autofocus
            value={text}
            onChange={(event) => {
              setChanged(event.target.value);
              setMistakes(null);
            }}
            className="num"
          />
        </div>
      )}
    </Dialog>
  );
}
