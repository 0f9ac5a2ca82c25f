import { Suspense } from "react";
import { runCommand } from "@/commands/registry";
import { missions } from "@/projection/vitals";
import type { Graph } from "@/projection/graph";
import { useProjection } from "@/state/log";
import { setUi, useUi } from "@/state/ui";
import { PauseIcon, PlayIcon, SearchIcon, StepIcon, StopIcon } from "@/ui/icons/icons";
import { Kbd } from "@/ui/Kbd";
import { Select } from "@/ui/Select";
import { CommandButton } from "./CommandButton";
import { panels } from "./panels";
import { useCommand } from "./useCommand";
import { Vitals } from "./Vitals";

/** The God Mode bar: the goal, the controls of all that runs, and the vitals. */
export function TopBar() {
  const Goal = panels.godmode;
  const canPause = useCommand("run.pause_all").enabled.ok;
  const canResume = useCommand("run.resume_all").enabled.ok;
  return (
    <header className="flex min-h-14 flex-wrap items-center gap-x-3 gap-y-2 border-b border-line bg-panel px-4 py-2 [grid-area:top]">
      <div className="flex min-w-60 flex-1 items-center gap-2 max-tablet:basis-full">
        {Goal === null ? (
          <SearchButton />
        ) : (
          <Suspense fallback={<div className="h-9 flex-1 skeleton" />}>
            <Goal />
          </Suspense>
        )}
      </div>
      <MissionChoice />
      <div role="group" aria-label="All runs" className="flex gap-2">
        {(canPause || !canResume) && <CommandButton id="run.pause_all" icon={<PauseIcon size={12} />} />}
        {canResume && <CommandButton id="run.resume_all" icon={<PlayIcon size={12} />} />}
        {/* A step takes what is paused further; on a phone it is shown only then. */}
        <span className={canResume ? "contents" : "hidden tablet:contents"}>
          <CommandButton id="run.step" icon={<StepIcon size={12} />} />
        </span>
        <CommandButton id="run.stop_all" variant="danger" icon={<StopIcon size={10} />} />
      </div>
      <Vitals />
    </header>
  );
}

function SearchButton() {
  return (
    <button
      type="button"
      onClick={() => void runCommand("palette.open")}
      className="flex h-9 w-full items-center gap-2.5 rounded-control border border-edge bg-paper px-3 text-ink-2 hover:text-ink"
    >
      <SearchIcon />
      <span className="truncate">Search and run commands</span>
      <span className="ml-auto">
        <Kbd keys="mod+k" />
      </span>
    </button>
  );
}

interface MissionOption {
  readonly value: string;
  readonly label: string;
}

/** The newest first, by their goals. */
function missionOptions(graph: Graph): readonly MissionOption[] {
  return missions(graph).map(({ id }) => ({ value: id, label: graph.runs.get(id)?.goal || id }));
}

/** Which goal the controls are about; shown as soon as there is more than one. */
function MissionChoice() {
  const options = useProjection(missionOptions);
  const mission = useUi((state) => state.mission);
  if (options.length < 2) return null;
  return (
    <Select
      bare
      label="Goal that the controls are about"
      value={options.some((one) => one.value === mission) ? mission : ""}
      options={[{ value: "", label: "All goals" }, ...options]}
      onChange={(chosen) => setUi({ mission: chosen })}
      className="w-24 flex-1 tablet:w-36 tablet:flex-none"
    />
  );
}
