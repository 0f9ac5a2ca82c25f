import type { NodeProps } from "@xyflow/react";
import { memo } from "react";
import { shortName } from "@/projection/event";
import { taskWords } from "@/projection/status";
import { TONE_OF } from "@/shell/meaning";
import { cx } from "@/ui/cx";
import { TaskIcon } from "@/ui/icons/icons";
import { TEXT_TONE } from "@/ui/tone";
import type { TaskNodeType } from "./types";

export const TaskNode = memo(function TaskNode({ data, selected }: NodeProps<TaskNodeType>) {
  const { task, title, words } = data;
  // Why it did not get done has room in its agent's node, and stands in this one's title.
  const { word } = taskWords(task);
  return (
    <div
      title={`${title}: ${words.word}`}
      className={cx(
        "flex size-full items-center gap-1.5 rounded-control border bg-panel px-2 text-12",
        selected === true ? "border-accent" : "border-line",
      )}
    >
      <span className={cx("shrink-0", TEXT_TONE[TONE_OF[words.meaning]])}>
        <TaskIcon size={13} />
      </span>
      <span className="min-w-14 flex-1 truncate font-medium">{shortName(task.id)}</span>
      <span className={cx("min-w-0 truncate text-11", TEXT_TONE[TONE_OF[words.meaning]])}>{word}</span>
    </div>
  );
});
