import { useState } from "react";
import { useMayAct } from "@/shell/useMayAct";
import { ActionButton } from "@/shell/ActionButton";
import { Pill } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { dayAndTime } from "@/ui/time";
import { ForgetDialog } from "./ForgetDialog";
import type { Entry } from "./useMemory";

interface EntriesProps {
  readonly agent: string;
  readonly entries: readonly Entry[];
  readonly hasMore: boolean;
  readonly isBusy: boolean;
  readonly onMore: () => void;
}

/** What an agent remembers for long, the oldest first. */
export function Entries({ agent, entries, hasMore, isBusy, onMore }: EntriesProps) {
  const [going, setGoing] = useState<Entry | null>(null);
  const may = useMayAct();
  return (
    <>
      <ul className="divide-y divide-line rounded-card border border-line bg-panel">
        {entries.map((entry) => (
          <li key={entry.id} className="flex items-start gap-3 px-3 py-2">
            <div className="min-w-0 flex-1">
              <p className="break-words whitespace-pre-wrap">{entry.text}</p>
              <p className="mt-0.5 flex flex-wrap items-center gap-x-2 gap-y-1 text-12 text-ink-3">
                <span>{dayAndTime(entry.tick)}</span>
                <span>{origin(entry)}</span>
                <span>importance {entry.importance}</span>
                {entry.trust !== "trusted" && <Pill tone="warn">{entry.trust}</Pill>}
                {entry.tags.map((tag) => (
                  <Pill key={tag}>{tag}</Pill>
                ))}
              </p>
            </div>
            <ActionButton
              label="Forget"
              size="small"
              variant="danger"
              may={may}
              name={`Forget: ${entry.text.slice(0, 80)}`}
              onClick={() => setGoing(entry)}
            />
          </li>
        ))}
      </ul>
      {hasMore && (
        <Button className="self-center" busy={isBusy} onClick={onMore}>
          Show more
        </Button>
      )}
      {going !== null && <ForgetDialog agent={agent} entry={going} onClose={() => setGoing(null)} />}
    </>
  );
}

function origin(entry: Entry): string {
  const by = entry.run_id === null ? "" : `by run ${entry.run_id}`;
  const from = entry.speaker === "" ? "" : `said by ${entry.speaker}`;
  const about = entry.date === "" ? "" : `about ${entry.date}`;
  return [by, from, about].filter(Boolean).join(", ");
}
