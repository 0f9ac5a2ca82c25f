import { useQuery } from "@tanstack/react-query";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { ActionButton } from "@/shell/ActionButton";
import { Facts } from "../parts/Facts";
import { Loaded } from "../parts/Loaded";
import { Part } from "../parts/Part";
import { RefButton } from "../parts/RefButton";

interface AttachedMemoryProps {
  readonly agent: Shape<"AgentShown">;
  readonly artifact: string;
}

const OWNER = "agent:";

/** Blocks of the memory behind an artifact; null if it is another artifact, which is read as text. */
async function blocksOf(artifact: string, signal: AbortSignal): Promise<Shape<"MemoryShown"> | null> {
  const shown = await api.get<Shape<"ArtifactShown">>(path("artifacts", artifact), undefined, signal);
  if (shown.kind !== "memory_store" || !shown.owner.startsWith(OWNER)) return null;
  return api.get(path("memory", shown.owner.slice(OWNER.length)), { limit: 1 }, signal);
}

/** What is attached, as it stands in the agent's prompts. */
export function AttachedMemory({ agent, artifact }: AttachedMemoryProps) {
  const query = useQuery({
    queryKey: ["attached-memory", artifact],
    queryFn: ({ signal }) => blocksOf(artifact, signal),
  });
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const detach = () =>
    attempt(
      () =>
        api.patch(path("agents", agent.id), { memory_artifact_id: null, expected_version: agent.version }),
      "It is no longer attached; tasks that have begun keep it.",
    );
  return (
    <Part title="Attached memory">
      <div className="flex items-center justify-between gap-2">
        <RefButton kind="artifact" to={artifact} />
        <ActionButton label="Detach" size="small" busy={busy} may={may} onClick={() => void detach()} />
      </div>
      <Loaded query={query} what="the memory">
        {(memory) =>
          memory === null ? (
            <p className="text-12 text-ink-2">It stands in each prompt as its text.</p>
          ) : memory.blocks.length === 0 ? (
            <p className="text-12 text-ink-2">It has no blocks yet; the screen Memory writes them.</p>
          ) : (
            <ul className="flex flex-col gap-2">
              {memory.blocks.map((block) => (
                <li key={block.label} className="rounded-control border border-line p-2">
                  <Facts rows={[[block.label, `${block.text.length} of ${block.limit_chars} characters`]]} />
                  <p className="mt-1 whitespace-pre-wrap break-words">
                    {block.missing === "" ? block.text || "(empty)" : `cannot be read: ${block.missing}`}
                  </p>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Part>
  );
}
