import { useState } from "react";
import { no } from "@/commands/command";
import type { World } from "@/client/worlds";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { PauseIcon, PlayIcon, StepIcon } from "@/ui/icons/icons";
import { TextField } from "@/ui/TextField";
import { ForkDialog } from "./ForkDialog";
import { InjectDialog } from "./InjectDialog";
import { pause, resume, run, step, tick } from "./verbs";

const TICKS_MAX = 1_000_000;

/** Time of a world: one tick, many, hold on, go on; and what else people may do to it. */
export function WorldControls({ world }: { readonly world: World }) {
  const [ticks, setTicks] = useState("20");
  const [open, setOpen] = useState<"inject" | "fork" | null>(null);
  const mayAct = useMayAct();
  const { busy, attempt } = useAttempt();
  const isPassing = world.passing !== null;
  const count = Number(ticks);
  const isCount = Number.isInteger(count) && count >= 1 && count <= TICKS_MAX;
  const mayTick = mayAct.ok && isPassing ? no("Ticks are being passed. Pause first.") : mayAct;
  const mayRun = !mayTick.ok
    ? mayTick
    : world.paused
      ? no("The world is paused. Resume it first.")
      : isCount
        ? mayTick
        : no(`Write a number from 1 to ${TICKS_MAX.toLocaleString("en-US")}.`);
  const act = (task: (id: string) => Promise<unknown>) => () => void attempt(() => task(world.id));
  return (
    <div role="group" aria-label="Time of the world" className="flex flex-wrap items-center gap-2">
      {world.paused ? (
        <ActionButton
          label="Resume"
          icon={<PlayIcon size={12} />}
          may={mayAct}
          busy={busy}
          hint="Ticks may begin again; none is passed unasked."
          onClick={act(resume)}
        />
      ) : (
        <ActionButton
          label="Pause"
          icon={<PauseIcon size={12} />}
          may={mayAct}
          busy={busy && !isPassing}
          hint={isPassing ? "The tick at work is finished, then no other begins." : "No further tick begins."}
          onClick={act(pause)}
        />
      )}
      <ActionButton
        label={world.paused ? "Step" : "Tick"}
        icon={<StepIcon size={12} />}
        may={mayTick}
        busy={busy}
        hint={world.paused ? "One tick, then it is paused again." : "Every agent acts once."}
        onClick={act(world.paused ? step : tick)}
      />
      <form
        className="flex items-center gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          if (mayRun.ok) act((id) => run(id, count))();
        }}
      >
        <TextField
          bare
          label="How many ticks"
          inputMode="numeric"
          value={ticks}
          disabled={!mayAct.ok}
          onChange={(event) => setTicks(event.target.value)}
          className="w-16"
        />
        <ActionButton
          label={isCount && count !== 1 ? `Run ${count} ticks` : "Run"}
          variant="primary"
          may={mayRun}
          busy={busy}
          hint="They are passed in the server, also when this page is closed."
          onClick={act((id) => run(id, count))}
        />
      </form>
      <Button onClick={() => setOpen("inject")}>Tell …</Button>
      <Button onClick={() => setOpen("fork")}>Fork …</Button>
      {open === "inject" && <InjectDialog world={world} onClose={() => setOpen(null)} />}
      {open === "fork" && <ForkDialog world={world} onClose={() => setOpen(null)} />}
    </div>
  );
}
