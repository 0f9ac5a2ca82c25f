import { useState } from "react";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import type { Artifact, Graph } from "@/projection/graph";
import { liveArtifacts } from "@/projection/vitals";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { useProjection } from "@/state/log";
import { ActionButton } from "@/shell/ActionButton";
import { Select } from "@/ui/Select";

const CHOICES_MAX = 200;
const NONE_OF_THESE: ReadonlySet<string> = new Set(["agent", "task", "membrane", "steering"]);

/** Memories first, then whatever else can be read as text. */
function choices(graph: Graph): readonly Artifact[] {
  const isMemory = (one: Artifact) => Number(one.kind === "memory_store");
  return liveArtifacts(graph)
    .filter((one) => !NONE_OF_THESE.has(one.kind))
    .sort((a, b) => isMemory(b) - isMemory(a))
    .slice(0, CHOICES_MAX);
}

/** Attaches a memory, or any artifact that shall stand in each of its prompts. */
export function AttachMemory({ agent }: { readonly agent: Shape<"AgentShown"> }) {
  const there = useProjection(choices).filter((one) => one.id !== agent.memory);
  const [chosen, setChosen] = useState("");
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const first = there[0];
  if (first === undefined) {
    return (
      <p className="text-ink-2">
        Beyond its task an agent remembers nothing. Write a memory or a note on the screen Memory or
        Artifacts, then attach it here.
      </p>
    );
  }
  const artifact = there.some((one) => one.id === chosen) ? chosen : first.id;
  return (
    <div className="flex flex-col gap-2">
      <p className="text-12 text-ink-2">
        Beyond its task an agent remembers nothing. What you attach stands in its prompts, from the next task
        on that it begins.
      </p>
      <div className="flex items-end gap-2">
        <Select
          label="Memory or artifact"
          value={artifact}
          options={there.map((one) => ({ value: one.id, label: `${one.title} · ${one.kind}` }))}
          onChange={setChosen}
          className="min-w-0 flex-1"
        />
        <ActionButton
          label="Attach"
          busy={busy}
          may={may}
          onClick={() =>
            void attempt(
              () =>
                api.patch(path("agents", agent.id), {
                  memory_artifact_id: artifact,
                  expected_version: agent.version,
                }),
              "It is attached.",
            )
          }
        />
      </div>
    </div>
  );
}
