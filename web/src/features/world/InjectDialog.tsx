import { useState } from "react";
import { no } from "@/commands/command";
import type { World } from "@/client/worlds";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { TextField } from "@/ui/TextField";
import { inject } from "./verbs";

/** Something that happens to a world: its agents read of it in the next tick. */
export function InjectDialog({ world, onClose }: { readonly world: World; readonly onClose: () => void }) {
  const [text, setText] = useState("");
  const [names, setNames] = useState("");
  const mayAct = useMayAct();
  const { busy, attempt } = useAttempt();
  const to = names.split(/[\s,]+/).filter(Boolean);
  const may = mayAct.ok && text.trim() === "" ? no("Write what happens first.") : mayAct;
  const send = async () => {
    const whom = to.length === 0 ? "All agents learn" : `${to.join(", ")} learn${to.length === 1 ? "s" : ""}`;
    const done = `${whom} of it at tick ${world.tick + 1}.`;
    if (await attempt(() => inject(world.id, text.trim(), to), done)) onClose();
  };
  return (
    <Dialog
      title="Tell agents of something"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <ActionButton
            label="Tell them"
            variant="primary"
            may={may}
            busy={busy}
            onClick={() => void send()}
          />
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <TextField
          label="What happens"
          rows={4}
          data-autofocus
          value={text}
          onChange={(event) => setText(event.target.value)}
          hint={`It stands in their prompts, and before their reflexes, at tick ${world.tick + 1}.`}
        />
        <TextField
          label="Who learns of it"
          placeholder="all agents"
          value={names}
          onChange={(event) => setNames(event.target.value)}
          hint="Ids of agents, with commas between."
        />
      </div>
    </Dialog>
  );
}
