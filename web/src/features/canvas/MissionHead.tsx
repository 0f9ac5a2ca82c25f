import { counted } from "@/projection/counted";
import { standing } from "@/projection/standing";
import type { Graph } from "@/projection/graph";
import { goalWords } from "@/projection/status";
import { Link } from "@/shell/Link";
import { href, navigate } from "@/shell/route";
import { missions } from "@/projection/vitals";
import { Select } from "@/ui/Select";
import { TONE_OF } from "@/shell/meaning";
import { select, useUi } from "@/state/ui";
import { compact, dollars } from "@/ui/amounts";
import { Status } from "@/ui/Badge";
import { cx } from "@/ui/cx";

/** What the agents below work on, how far they are and what it cost; opens the goal in the inspector. */
export function MissionHead({ graph, mission }: { readonly graph: Graph; readonly mission: string }) {
  const selection = useUi((state) => state.selection);
  const shown = standing(graph, mission);
  if (shown === null)
    return graph.missions.size === 0 ? null : (
      <section aria-label="Mission" className="flex min-h-11 items-center border-b border-line bg-panel pl-4">
        <h2 className="min-w-0 flex-1 truncate text-15 font-semibold">Every goal on one canvas</h2>
        <GoalChoice graph={graph} mission={mission} />
      </section>
    );
  const { word, meaning } = goalWords(shown.status, graph.missions.get(shown.id)?.launchedUs != null);
  const isSelected = selection?.kind === "mission" && selection.id === shown.id;
  return (
    <section aria-label="Mission" className="flex flex-wrap items-center border-b border-line bg-panel">
      <button
        type="button"
        aria-pressed={isSelected}
        title={shown.goal}
        onClick={() => select("mission", shown.id)}
        className={cx(
          "flex min-h-11 min-w-0 flex-1 flex-wrap items-center gap-x-4 gap-y-0.5 px-4 py-1.5 text-left -outline-offset-2 hover:bg-panel-2",
          isSelected && "bg-panel-2",
        )}
      >
        <span className="min-w-60 flex-1 truncate text-15 font-semibold">{shown.goal}</span>
        <span className="flex shrink-0 flex-wrap items-center gap-x-4 text-12 text-ink-2">
          <Status tone={TONE_OF[meaning]}>{word}</Status>
          <span>
            {shown.tasks === 0 ? "no tasks yet" : `${shown.done} of ${counted(shown.tasks, "task")} done`}
          </span>
          <span className="num">
            {shown.unpriced > 0 && "at least "}
            {dollars(shown.microusd)} · {compact(shown.tokens)} tok
          </span>
        </span>
      </button>
      <Link to={href("goals", shown.id)} className="px-3 text-12 text-accent underline">
        Answer
      </Link>
      {shown.others > 0 && <GoalChoice graph={graph} mission={mission} />}
    </section>
  );
}

/** Which goal's canvas is shown: each has one of its own. */
function GoalChoice({ graph, mission }: { readonly graph: Graph; readonly mission: string }) {
  const options = missions(graph).map(({ id }) => ({ value: id, label: graph.runs.get(id)?.goal || id }));
  return (
    <Select
      bare
      label="Goal on the canvas"
      value={mission}
      options={[...options, { value: "", label: "Everything" }]}
      onChange={(id) => navigate(id === "" ? href("canvas", null, { all: "1" }) : href("canvas", id))}
      className="mr-3 w-40"
    />
  );
}
