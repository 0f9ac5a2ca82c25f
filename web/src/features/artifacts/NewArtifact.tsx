import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, inWords } from "@/client/http";
import type { Shape } from "@/client/types";
import { useAttempt } from "@/shell/useAttempt";
import { select } from "@/state/ui";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";
import { type ArtifactDraft, BLANK, bodyOf, mistakesOf } from "./draft";

const ACCESS = [
  { value: "", label: "As is usual for the kind" },
  { value: "private", label: "private: people alone" },
  { value: "owner_writes", label: "owner_writes: every agent reads" },
  { value: "public", label: "public: every agent reads and writes" },
] as const;

const MEDIA = [
  { value: "text", label: "Text" },
  { value: "json", label: "JSON" },
] as const;

/** Writes version 1 of an artifact. */
export function NewArtifact({ onClose }: { readonly onClose: () => void }) {
  const [draft, setDraft] = useState<ArtifactDraft>(BLANK);
  const [isTried, setTried] = useState(false);
  const { busy, attempt } = useAttempt();
  const kinds = useQuery({
    queryKey: ["artifacts", "kinds"],
    queryFn: ({ signal }) => api.get<Shape<"ArtifactsPage">>("/artifacts", { limit: 1 }, signal),
    select: (page) => page.kinds,
    staleTime: Infinity,
  });
  const mistakes = isTried ? mistakesOf(draft) : {};
  const change = (fields: Partial<ArtifactDraft>) => setDraft({ ...draft, ...fields });

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (Object.keys(mistakesOf(draft)).length > 0) return;
    const isMade = await attempt(
      async () => {
        const made = await api.post<Shape<"ArtifactShown">>("/artifacts", bodyOf(draft));
        select("artifact", made.id);
        return made;
      },
      ({ id }) => ({ title: `${id} is written, version 1.` }),
    );
    if (isMade) onClose();
  };

  return (
    <Dialog
      title="Write an artifact"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form="new-artifact" variant="primary" busy={busy}>
            Write version 1
          </Button>
        </>
      }
    >
      <form
        id="new-artifact"
        noValidate
        className="flex flex-col gap-3"
        onSubmit={(event) => void submit(event)}
      >
        <TextField
          label="Id"
          data-autofocus
          placeholder="notes/first-look"
          value={draft.id}
          error={mistakes.id}
          hint="Slashes make folders; the last piece is how people call it."
          onChange={(event) => change({ id: event.target.value })}
        />
        <div className="grid grid-cols-1 gap-3 tablet:grid-cols-2">
          <Select
            label="Kind"
            value={draft.kind}
            options={(kinds.data ?? [draft.kind]).map((kind) => ({ value: kind, label: kind }))}
            {...(kinds.error === null ? {} : { hint: inWords(kinds.error).title })}
            onChange={(kind) => change({ kind })}
          />
          <Select
            label="Content is"
            value={draft.media}
            options={MEDIA}
            onChange={(media) => change({ media })}
          />
        </div>
        <TextField
          label="Content"
          rows={10}
          spellCheck={draft.media === "text"}
          value={draft.content}
          error={mistakes.content}
          onChange={(event) => change({ content: event.target.value })}
        />
        <Select
          label="Who may use it"
          value={draft.access}
          options={ACCESS}
          hint="Sharing it in a membrane comes later, in the inspector."
          onChange={(access) => change({ access })}
        />
      </form>
    </Dialog>
  );
}
