import { useState } from "react";
import { api, ApiError, inWords } from "@/client/http";
import type { World } from "@/client/worlds";
import { ActionButton } from "@/shell/ActionButton";
import { no } from "@/commands/command";
import { href, navigate } from "@/shell/route";
import { useMayAct } from "@/shell/useMayAct";
import { useWorlds } from "@/state/useWorlds";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";

const OWN = "own";

/** A new world: from a template that is shipped, or from the text of a world file. */
export function NewWorld({ current }: { readonly current: string | null }) {
  const templates = useWorlds().data?.templates ?? [];
  const [id, setId] = useState("");
  const [chosen, setChosen] = useState("");
  const [toml, setToml] = useState("");
  const [seed, setSeed] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const mayAct = useMayAct();
  const template = chosen === "" ? (templates[0] ?? OWN) : chosen;
  const close = () => navigate(href("world", current), { replace: true });
  const seedError = seed === "" || /^\d{1,15}$/.test(seed) ? undefined : "A whole number, or nothing.";
  const may = !mayAct.ok
    ? mayAct
    : id.trim() === ""
      ? no("Give it a name first.")
      : seedError !== undefined
        ? no(seedError)
        : mayAct;

  const make = async () => {
    setBusy(true);
    setFailure(null);
    try {
      const made = await api.post<World>("/worlds", {
        id: id.trim(),
        ...(template === OWN ? { toml } : { template }),
        ...(seed !== "" && { seed: Number(seed) }),
      });
      navigate(href("world", made.id), { replace: true });
    } catch (error) {
      setFailure(error);
    } finally {
      setBusy(false);
    }
  };
  const words = failure === null ? null : inWords(failure);
  const isAboutId = failure instanceof ApiError && failure.status === 409;
  return (
    <Dialog
      title="New world"
      onClose={close}
      footer={
        <>
          <Button onClick={close}>Cancel</Button>
          <ActionButton label="Make it" variant="primary" may={may} busy={busy} onClick={() => void make()} />
        </>
      }
    >
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (may.ok && !busy) void make();
        }}
      >
        {words !== null && !isAboutId && (
          <p role="alert" className="break-words text-bad">
            {words.title} {words.advice}
          </p>
        )}
        <TextField
          label="Name of the world"
          data-autofocus
          value={id}
          onChange={(event) => setId(event.target.value)}
          error={isAboutId ? `${words?.title ?? ""}. Choose another name.` : undefined}
        />
        <Select
          label="Begin with"
          value={template}
          options={[
            ...templates.map((name) => ({ value: name, label: `the template ${name}` })),
            { value: OWN, label: "a world file (TOML)" },
          ]}
          onChange={setChosen}
          hint={
            template === OWN
              ? "Its text, in which no other file is named. Empty makes a world without agents."
              : "Agents, artifacts and settings that ship with Artelier; they act by rules and reflexes, without a model."
          }
        />
        {template === OWN && (
          <TextField
            label="World file"
            rows={10}
            spellCheck={false}
            value={toml}
            onChange={(event) => setToml(event.target.value)}
          />
        )}
        <TextField
          label="Seed"
          inputMode="numeric"
          placeholder="that of the template"
          value={seed}
          onChange={(event) => setSeed(event.target.value.trim())}
          hint="The same seed, settings and answers make the same world."
          error={seedError}
        />
        <button type="submit" className="sr-only" tabIndex={-1} aria-hidden="true" />
      </form>
    </Dialog>
  );
}
