import type { NodeProps } from "@xyflow/react";
import { memo } from "react";
import { cx } from "@/ui/cx";
import {
  ArtifactsIcon,
  DatasetIcon,
  MemoryStoreIcon,
  PromptIcon,
  ToolIcon,
  WorkflowIcon,
} from "@/ui/icons/icons";
import type { ArtifactNodeType } from "./types";

const ICONS: Readonly<Record<string, typeof ArtifactsIcon>> = {
  dataset: DatasetIcon,
  memory_store: MemoryStoreIcon,
  memory: MemoryStoreIcon,
  prompt: PromptIcon,
  profile: PromptIcon,
  workflow: WorkflowIcon,
  reflex: WorkflowIcon,
  tool: ToolIcon,
  skill: ToolIcon,
};

export const ArtifactNode = memo(function ArtifactNode({ data, selected }: NodeProps<ArtifactNodeType>) {
  const { artifact, maker } = data;
  const Icon = ICONS[artifact.kind] ?? ArtifactsIcon;
  return (
    <div
      title={`${artifact.title}, ${artifact.kind}, version ${artifact.version}`}
      className={cx(
        "flex size-full flex-col justify-center rounded-control border border-l-3 border-l-artifact bg-panel px-2.5",
        selected === true ? "border-accent" : "border-line",
      )}
    >
      <span className="flex items-center gap-1.5 text-12 font-semibold">
        <span className="text-artifact">
          <Icon size={13} />
        </span>
        <span className="truncate">{artifact.title}</span>
      </span>
      <span className="flex justify-between gap-2 text-11 text-ink-2">
        <span className="truncate">
          {artifact.kind} · v{artifact.version}
        </span>
        <span className="truncate">{artifact.priceRead > 0 ? `${artifact.priceRead} scrip` : maker}</span>
      </span>
    </div>
  );
});
