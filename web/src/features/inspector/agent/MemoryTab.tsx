import type { Shape } from "@/client/types";
import { useUi } from "@/state/ui";
import { OnlyNow } from "../parts/OnlyNow";
import { Part } from "../parts/Part";
import { AttachMemory } from "./AttachMemory";
import { AttachedMemory } from "./AttachedMemory";

/** What an agent is told from beyond its task: off, unless a memory is attached, visibly. */
export function MemoryTab({ agent }: { readonly agent: Shape<"AgentShown"> }) {
  const travel = useUi((state) => state.travel);
  if (travel !== null) return <OnlyNow what="What is attached" />;
  const attached = agent.memory ?? null;
  return (
    <>
      {attached !== null && <AttachedMemory key={attached} agent={agent} artifact={attached} />}
      {agent.is_assignable && (
        <Part title={attached === null ? "No memory is attached" : "Attach another"}>
          <AttachMemory agent={agent} />
        </Part>
      )}
      {!agent.is_assignable && attached === null && (
        <p className="px-4 py-3 text-ink-2">
          {agent.entries == null
            ? "It remembers nothing beyond its runs."
            : `Its long-term memory has ${agent.entries === 1 ? "1 entry" : `${agent.entries} entries`}; the screen Memory shows it all.`}
        </p>
      )}
    </>
  );
}
