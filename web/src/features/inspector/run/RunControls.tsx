import { api, path } from "@/client/http";
import type { Run } from "@/projection/graph";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { PauseIcon, PlayIcon, StepIcon, StopIcon } from "@/ui/icons/icons";

/** Pause, resume, step and stop of one run; its children follow it. */
export function RunControls({ run }: { readonly run: Run }) {
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const tell = (verb: "pause" | "resume" | "step" | "stop") =>
    void attempt(() => api.post(`${path("runs", run.id)}/${verb}`));
  const rest = { busy, may };
  const isPaused = run.status === "paused";
  return (
    <div role="group" aria-label="Selected run" className="flex flex-wrap gap-2">
      {isPaused ? (
        <>
          <ActionButton
            {...rest}
            label="Resume"
            icon={<PlayIcon size={12} />}
            onClick={() => tell("resume")}
          />
          <ActionButton {...rest} label="Step" icon={<StepIcon size={12} />} onClick={() => tell("step")} />
        </>
      ) : (
        <ActionButton {...rest} label="Pause" icon={<PauseIcon size={12} />} onClick={() => tell("pause")} />
      )}
      <ActionButton
        {...rest}
        label="Stop"
        variant="danger"
        icon={<StopIcon size={10} />}
        onClick={() => tell("stop")}
      />
    </div>
  );
}
