import { type FormEvent, useState } from "react";
import { api } from "@/client/http";
import { queryClient } from "@/client/queries";
import type { Shape } from "@/client/types";
import { no } from "@/commands/command";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { useUi } from "@/state/ui";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";
import { Fact, Facts, Section } from "./Section";

type Preview = Shape<"ErasurePreview">;
type Erased = Shape<"ErasureShown">;

type Reach = "subject" | "all";

const REACHES: readonly { readonly value: Reach; readonly label: string }[] = [
  { value: "subject", label: "What is stored of one subject" },
  { value: "all", label: "Everything of the tenant" },
];

interface Asked {
  readonly subject: string | null;
  readonly preview: Preview;
}

/** Takes what was stored of somebody out of the database, in two steps; for admins. */
export function EraseCard() {
  const isAdmin = useUi((state) => state.me?.role === "admin");
  const tenant = useUi((state) => state.me?.tenant) ?? "";
  return isAdmin ? (
    <Section title="Erase" note={`for good, in tenant ${tenant}`}>
      <EraseForm tenant={tenant} />
    </Section>
  ) : null;
}

function EraseForm({ tenant }: { readonly tenant: string }) {
  const [reach, setReach] = useState<Reach>("subject");
  const [words, setWords] = useState("");
  const [asked, setAsked] = useState<Asked>();
  const mayAct = useMayAct();
  const { busy, attempt } = useAttempt();
  const subject = reach === "subject" ? words.trim() : null;
  const may = mayAct.ok && subject === "" ? no("Say whose data it is.") : mayAct;
  const look = () =>
    attempt(async () => {
      setAsked({ subject, preview: await api.post<Preview>("/erasures/preview", { subject }) });
    });
  const erase = async ({ subject: whose, preview }: Asked) => {
    const isDone = await attempt(
      () => api.post<Erased>("/erasures", { subject: whose, token: preview.token }),
      (done) => ({ title: done.again ? "It had been erased before" : `Erased: ${amount(done)}` }),
    );
    setAsked(undefined);
    if (isDone) await queryClient.invalidateQueries();
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (may.ok && !busy) void look();
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-3">
      <Select label="What" value={reach} options={REACHES} onChange={setReach} className="max-w-80" />
      {reach === "subject" && (
        <TextField
          label="Subject"
          value={words}
          hint="The subject of runs, or a value that the vault knows, such as an e-mail address."
          onChange={(event) => setWords(event.target.value)}
          className="max-w-80"
        />
      )}
      <div>
        <ActionButton label="See what would go" may={may} busy={busy} onClick={() => void look()} />
      </div>
      {asked !== undefined && (
        <ConfirmDialog
          title={asked.subject === null ? `Erase everything of ${tenant}?` : `Erase ${asked.subject}?`}
          label="Erase for good"
          busy={busy}
          onConfirm={() => void erase(asked)}
          onClose={() => setAsked(undefined)}
        >
          <WhatWouldGo preview={asked.preview} />
        </ConfirmDialog>
      )}
    </form>
  );
}

const amount = (found: Erased) =>
  `${found.contents.toLocaleString("en-US")} contents, ${found.values.toLocaleString("en-US")} values`;

function WhatWouldGo({ preview }: { readonly preview: Preview }) {
  if (preview.again) return <p>It was erased before. Its traces in the file are looked after once more.</p>;
  return (
    <>
      <Facts>
        <Fact name="Contents">{`${amount(preview)} (${preview.size_bytes.toLocaleString("en-US")} bytes)`}</Fact>
        {preview.runs.length > 0 && <Fact name="Of runs">{preview.runs.join(", ")}</Fact>}
        <Fact name="Not reached">{(preview.not_reached ?? []).join(", ")}</Fact>
      </Facts>
      <p>This cannot be undone. Events, times and costs stay; where content was, [erased] is shown.</p>
    </>
  );
}
