import { type FormEvent, useState } from "react";
import { ApiError, inWords } from "@/client/http";
import { ActionButton } from "@/shell/ActionButton";
import { href, navigate } from "@/shell/route";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { TextField } from "@/ui/TextField";
import { create } from "./api";
import { ProfilePicker } from "./ProfilePicker";

/** A new chat: who talks, with which model and which operations. Everything can be changed later but its id. */
export function NewChat({ current }: { readonly current: string | null }) {
  const [fields, setFields] = useState({
    id: "",
    user: "",
    char: "",
    description: "",
    greeting: "",
    model: "",
    system: "",
  });
  const [profile, setProfile] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const may = useMayAct();
  const close = () => navigate(href("chat", current), { replace: true });
  const given = (text: string) => (text.trim() === "" ? {} : { value: text.trim() });
  const field = (name: keyof typeof fields) => ({
    value: fields[name],
    onChange: (event: { readonly target: { readonly value: string } }) =>
      setFields((before) => ({ ...before, [name]: event.target.value })),
  });

  const begin = async () => {
    setBusy(true);
    setFailure(null);
    const name = fields.char.trim() === "" ? "Assistant" : fields.char.trim();
    try {
      const made = await create({
        ...(given(fields.id).value && { id: fields.id.trim() }),
        ...(given(fields.user).value && { user: fields.user.trim() }),
        ...((fields.char + fields.description).trim() !== "" && {
          char: { name, ...(given(fields.description).value && { description: fields.description.trim() }) },
        }),
        ...(given(fields.greeting).value && { greetings: [fields.greeting.trim()] }),
        ...(given(fields.model).value && { model: fields.model.trim() }),
        ...(given(fields.system).value && { system: fields.system.trim() }),
        ...(profile !== "" && { profile }),
      });
      navigate(href("chat", made.id), { replace: true });
    } catch (error) {
      setFailure(error);
    } finally {
      setBusy(false);
    }
  };
  const words = failure === null ? null : inWords(failure);
  const isAboutId = failure instanceof ApiError && failure.code === "conflict";
  return (
    <Dialog
      title="New chat"
      onClose={close}
      footer={
        <>
          <Button onClick={close}>Cancel</Button>
          <ActionButton label="Begin" variant="primary" may={may} busy={busy} onClick={() => void begin()} />
        </>
      }
    >
      <form
        className="grid gap-3 tablet:grid-cols-2"
        onSubmit={(event: FormEvent) => {
          event.preventDefault();
          if (may.ok && !busy) void begin();
        }}
      >
        {words !== null && !isAboutId && (
          <p role="alert" className="text-bad tablet:col-span-2">
            {words.title} {words.advice}
          </p>
        )}
        <TextField
          label="Name of the chat"
          placeholder="a free one is chosen"
          data-autofocus
          error={isAboutId ? `${words?.title ?? ""}. Choose another name.` : undefined}
          {...field("id")}
        />
        <TextField label="Model" placeholder="that of the server" {...field("model")} />
        <TextField label="Your name" placeholder="User" {...field("user")} />
        <TextField label="Name of the character" placeholder="Assistant" {...field("char")} />
        <div className="tablet:col-span-2">
          <TextField label="Who the character is" rows={2} {...field("description")} />
        </div>
        <div className="tablet:col-span-2">
          <TextField label="First words of the character" rows={2} {...field("greeting")} />
        </div>
        <div className="tablet:col-span-2">
          <ProfilePicker value={profile} onChange={setProfile} disabled={busy} />
        </div>
        <div className="tablet:col-span-2">
          <TextField
            label="System prompt"
            rows={2}
            hint="Without one the profile's stands, or the model's own manner."
            {...field("system")}
          />
        </div>
        <button type="submit" className="sr-only" tabIndex={-1} aria-hidden="true" />
      </form>
    </Dialog>
  );
}
