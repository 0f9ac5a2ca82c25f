import { counted } from "@/projection/counted";
import { shortName } from "@/projection/event";
import { taskWords } from "@/projection/status";
import type { TaskStatus } from "@/projection/graph";
import { TONE_OF } from "@/shell/meaning";
import { select } from "@/state/ui";
import { compact, dollars, whole } from "@/ui/amounts";
import { Status } from "@/ui/Badge";
import { dayAndTime } from "@/ui/time";
import { durationWords } from "./duration";
import { JudgeAnswer } from "./JudgeAnswer";
import { useNow } from "./useNow";
import type { Goal, GoalTask } from "./useGoals";

/** Tasks, cost and time: how a goal came to where it stands. */
export function HowItCame({ goal }: { readonly goal: Goal }) {
  return (
    <aside
      aria-label="How it came about"
      className="flex flex-col gap-4 border-line bg-panel px-4.5 py-4.5 max-[999px]:border-t @min-[1000px]:overflow-y-auto @min-[1000px]:border-l @min-[1000px]:scroll-thin"
    >
      <h3 className="text-13 font-semibold">How it came about</h3>
      {goal.tasks.length > 0 && (
        <ol className="flex flex-col">
          {goal.tasks.map((task) => (
            <TaskRow key={task.id} goal={goal} task={task} />
          ))}
        </ol>
      )}
      <Facts goal={goal} />
      <JudgeAnswer goal={goal} />
    </aside>
  );
}

function TaskRow({ goal, task }: { readonly goal: Goal; readonly task: GoalTask }) {
  const { word, meaning } = taskWords({ status: task.status as TaskStatus, reason: task.reason ?? "" });
  const agent = goal.agents.find((one) => one.id === task.assigned_agent_id)?.name;
  return (
    <li className="border-b border-line">
      <button
        type="button"
        onClick={() => select("task", task.id)}
        className="grid w-full grid-cols-[minmax(0,1fr)_auto] gap-x-2.5 gap-y-0.5 py-2 text-left hover:bg-panel-2"
      >
        <span className="truncate font-semibold">{shortName(task.id)}</span>
        <span className="num text-right text-12 text-ink-2">{dollars(task.cost_microusd)}</span>
        <span className="text-12">
          <Status tone={TONE_OF[meaning]}>{word}</Status>
        </span>
        <span className="text-right text-12 text-ink-2">
          {task.iteration_count} of {counted(task.last_iteration, "iteration")}
        </span>
        <span className="col-span-2 line-clamp-2 text-12 text-ink-2">
          {agent === undefined ? "" : `${agent}: `}
          {task.goal}
        </span>
      </button>
    </li>
  );
}

type Attachment = NonNullable<Goal["attachments"]>[number];

function attachmentWords({ media_type, pixels, pages, size_bytes }: Attachment): string {
  const shape = pixels ? `${pixels[0]} × ${pixels[1]}, ` : pages ? `${counted(pages, "page")}, ` : "";
  return `${media_type}, ${shape}${compact(size_bytes)} bytes`;
}

function Facts({ goal }: { readonly goal: Goal }) {
  const { usage } = goal;
  const now = useNow(goal.status === "running");
  const cached =
    usage.input_tokens === 0 ? 0 : Math.round((usage.cached_input_tokens * 100) / usage.input_tokens);
  const budget = goal.budget_microusd;
  const attached = (goal.attachments ?? []).map(attachmentWords).join("; ");
  const rows: readonly (readonly [string, string])[] = [
    [
      "Cost",
      `${dollars(goal.cost_microusd)}${budget === null || budget === undefined ? "" : ` of ${dollars(budget)}`}`,
    ],
    ["Tasks done", `${goal.tasks.filter((task) => task.status === "done").length} of ${goal.tasks.length}`],
    ["Tokens", `${compact(usage.input_tokens)} in, ${compact(usage.output_tokens)} out`],
    ["From cache", usage.cached_input_tokens === 0 ? "nothing" : `${whole(cached)} % of input`],
    ["Model", goal.model || "the agents' own"],
    ...(goal.started_us ? [["Begun", dayAndTime(goal.started_us)] as const] : []),
    ...(goal.launched_us ? [["Took", durationWords(goal, now)] as const] : []),
    ...(goal.workspace === "" ? [] : [["Folder", goal.workspace] as const]),
    ...(attached === "" ? [] : [["Attached", attached] as const]),
  ];
  return (
    <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 gap-y-1.5 text-12">
      {rows.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-ink-2">{name}</dt>
          <dd className="num text-right break-words">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
