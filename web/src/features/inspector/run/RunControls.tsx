import { api, path } from "@/client/http";
import type { Run } from "@/projection/graph";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { PauseIcon, PlayIcon, StepIcon, StopIcon } from "@/ui/icons/icons";

/** Pause, resume, step and stop of one run; its children follow it. */
export function RunControls({ run }: { readonly run: Run }) {
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const tell = (verb: "pause" | "resume" | "step" | "stop") =>
    void attempt(() => api.post(`${path("runs", run.id)}/${verb}`));
  const rest = { busy, disabled: !may.ok, title: may.ok ? undefined : may.why };
  const isPaused = run.status === "paused";
  return (
    <div role="group" aria-label="Selected run" className="flex flex-wrap gap-2">
      {isPaused ? (
        <>
          <Button {...rest} icon={<PlayIcon size={12} />} onClick={() => tell("resume")}>
            Resume
          </Button>
          <Button {...rest} icon={<StepIcon size={12} />} onClick={() => tell("step")}>
            Step
          </Button>
        </>
      ) : (
        <>
          <Button {...rest} icon={<PauseIcon size={12} />} onClick={() => tell("pause")}>
            Pause
          </Button>
          <Button {...rest} variant="danger" icon={<StopIcon size={10} />} onClick={() => tell("stop")}>
            Stop
          </Button>
        </>
      )}
    </div>
  );
}
