import { useState } from "react";
import { inWords } from "@/client/http";
import { EmptyState } from "@/ui/EmptyState";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { TextField } from "@/ui/TextField";
import { useDebounced } from "@/ui/useDebounced";
import { BlockCard } from "./BlockCard";
import { Entries } from "./Entries";
import { Hits } from "./Hits";
import { useMemory } from "./useMemory";

/** Core memory and long-term memory of one agent, and what its own search would find. */
export function Remembered({ agent }: { readonly agent: string }) {
  const memory = useMemory(agent);
  const [words, setWords] = useState("");
  const asked = useDebounced(words.trim());
  if (memory.error !== null) {
    const { title, advice } = inWords(memory.error);
    return <ErrorState title={title} advice={advice} onRetry={memory.retry} />;
  }
  if (memory.isLoading) return <Skeleton label="the memory" rows={8} />;
  return (
    <div className="flex flex-col gap-3 p-4">
      <TextField
        bare
        type="search"
        label={`Search ${agent}'s memory`}
        placeholder="Search as the agent would"
        maxLength={2000}
        value={words}
        onChange={(event) => setWords(event.target.value)}
      />
      {asked !== "" ? (
        <Hits agent={agent} words={asked} />
      ) : (
        <>
          <h2 className="text-13">Core: in every prompt of an agent whose memory is on</h2>
          {memory.blocks.map((block) => (
            <BlockCard key={block.label} agent={agent} block={block} />
          ))}
          <h2 className="mt-2 text-13">Long-term: found when it is asked for</h2>
          {memory.entries.length === 0 ? (
            <EmptyState title="Nothing is kept for long yet">
              “Remember” adds the first entry; agents add their own with the memory tools.
            </EmptyState>
          ) : (
            <Entries
              agent={agent}
              entries={memory.entries}
              hasMore={memory.hasMore}
              isBusy={memory.isBusy}
              onMore={memory.more}
            />
          )}
        </>
      )}
    </div>
  );
}
