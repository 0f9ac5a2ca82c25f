import type { NodeProps } from "@xyflow/react";
import { memo } from "react";
import { TONE_OF } from "@/shell/meaning";
import { compact, dollars } from "@/ui/amounts";
import { Status } from "@/ui/Badge";
import { cx } from "@/ui/cx";
import { AgentIcon } from "@/ui/icons/icons";
import { Ring } from "@/ui/Ring";
import type { AgentNodeType } from "./types";

export const AgentNode = memo(function AgentNode({ data, selected }: NodeProps<AgentNodeType>) {
  const { agent, words, isPending } = data;
  const tone = TONE_OF[words.meaning];
  const tokens = agent.spend.inputTokens + agent.spend.outputTokens;
  return (
    <div
      className={cx(
        "flex size-full gap-2.5 rounded-card border bg-panel px-3 py-2.5",
        selected === true
          ? "border-accent shadow-[0_0_0_2px_color-mix(in_srgb,var(--accent)_40%,transparent)]"
          : "border-line",
        isPending && "border-dashed",
      )}
    >
      {agent.iterationsMax > 0 ? (
        <Ring
          n={agent.iteration}
          m={agent.iterationsMax}
          label="iteration"
          tone={tone === "neutral" ? "agent" : tone}
        />
      ) : (
        <span className="grid size-8.5 shrink-0 place-items-center text-agent">
          <AgentIcon />
        </span>
      )}
      <span className="min-w-0 flex-1">
        <span className="block truncate font-semibold">{agent.name}</span>
        <span className="line-clamp-2 text-12 leading-4" title={words.word}>
          <Status tone={tone}>{words.word}</Status>
        </span>
        <span className="num block text-11 whitespace-nowrap text-ink-2">
          {agent.spend.unpriced > 0 && "≥ "}
          {dollars(agent.spend.microusd)} · {compact(tokens)} tok
        </span>
      </span>
    </div>
  );
});
