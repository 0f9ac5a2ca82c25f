import { useState } from "react";
import { no } from "@/commands/command";
import type { World } from "@/client/worlds";
import { ActionButton } from "@/shell/ActionButton";
import { href, navigate } from "@/shell/route";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { TextField } from "@/ui/TextField";
import { fork } from "./verbs";

/** Another world with the same history up to a tick. */
export function ForkDialog({ world, onClose }: { readonly world: World; readonly onClose: () => void }) {
  const [id, setId] = useState("");
  const [at, setAt] = useState(String(world.tick));
  const mayAct = useMayAct();
  const { busy, attempt } = useAttempt();
  const tick = Number(at);
  const error =
    at.trim() !== "" && Number.isInteger(tick) && tick >= 0 && tick <= world.tick
      ? undefined
      : `A tick from 0 to ${world.tick}.`;
  const may = mayAct.ok && error !== undefined ? no(error) : mayAct;
  const make = () =>
    attempt(async () => {
      const made = await fork(world.id, { at: tick, id: id.trim() === "" ? null : id.trim() });
      navigate(href("world", made.id));
      onClose();
    });
  return (
    <Dialog
      title={`Fork ${world.id}`}
      width="narrow"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <ActionButton label="Fork" variant="primary" may={may} busy={busy} onClick={() => void make()} />
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <TextField
          label="Up to and including tick"
          inputMode="numeric"
          data-autofocus
          value={at}
          onChange={(event) => setAt(event.target.value)}
          error={error}
          hint="What came later did not happen in the new world."
        />
        <TextField
          label="Name of the new world"
          placeholder={`${world.id}.fork-…`}
          value={id}
          onChange={(event) => setId(event.target.value)}
        />
      </div>
    </Dialog>
  );
}
