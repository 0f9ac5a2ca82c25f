import { useState } from "react";
import { unless } from "@/commands/command";
import { api, path } from "@/client/http";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { ActionButton } from "@/shell/ActionButton";
import { whole } from "@/ui/amounts";
import { Button } from "@/ui/Button";
import { Meter } from "@/ui/Meter";
import { TextField } from "@/ui/TextField";
import { readAgain, type Block } from "./useMemory";

/** One block of core memory: how full it is, and another text for it. */
export function BlockCard({ agent, block }: { readonly agent: string; readonly block: Block }) {
  const [draft, setDraft] = useState<string | null>(null);
  const { busy, attempt } = useAttempt();
  const may = useMayAct();
  const used = [...(draft ?? block.text)].length;
  const words = `${whole(used)} of ${whole(block.limit_chars)} characters`;
  const isTooLong = used > block.limit_chars;

  const save = async () => {
    const saved = await attempt(
      () => api.put<Block>(path("memory", agent, "blocks", block.label), { text: draft }),
      () => ({
        title: `${block.label} is saved.`,
        advice: `${agent} sees it in the next prompt that has its memory.`,
      }),
    );
    if (!saved) return;
    setDraft(null);
    readAgain();
  };

  return (
    <article aria-label={`Block ${block.label}`} className="rounded-card border border-line bg-panel p-3">
      <div className="flex items-center gap-3">
        <h3 className="num font-semibold">{block.label}</h3>
        <Meter
          label={`${block.label}, filled`}
          value={used}
          max={block.limit_chars}
          valueText={words}
          tone="membrane"
          className="w-16"
        />
        <span className="text-12 text-ink-3">{words}</span>
        <span className="flex-1" />
        {draft === null && (
          <ActionButton
            label="Edit"
            size="small"
            may={unless(may, block.missing)}
            onClick={() => setDraft(block.text)}
          />
        )}
      </div>
      {draft === null ? (
        <BlockText block={block} />
      ) : (
        <div className="mt-2 flex flex-col gap-2">
          <TextField
            bare
            autoFocus
            label={`Text of ${block.label}`}
            rows={5}
            value={draft}
            error={isTooLong ? `Shorten it by ${whole(used - block.limit_chars)} characters.` : undefined}
            onChange={(event) => setDraft(event.target.value)}
          />
          <div className="flex justify-end gap-2">
            <Button size="small" onClick={() => setDraft(null)}>
              Cancel
            </Button>
            <ActionButton
              label="Save"
              size="small"
              variant="primary"
              busy={busy}
              may={unless(
                may,
                isTooLong ? "It is too long." : draft === block.text && "Nothing was changed.",
              )}
              onClick={() => void save()}
            />
          </div>
        </div>
      )}
    </article>
  );
}

function BlockText({ block }: { readonly block: Block }) {
  if (block.missing !== "") {
    return <p className="mt-1.5 text-warn">It cannot be read: {block.missing}</p>;
  }
  if (block.text === "")
    return <p className="mt-1.5 text-ink-3">Empty. “Edit” writes what every prompt should say.</p>;
  return <p className="mt-1.5 break-words whitespace-pre-wrap">{block.text}</p>;
}
