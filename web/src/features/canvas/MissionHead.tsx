import { counted } from "@/projection/counted";
import { shownMission, standing } from "@/projection/standing";
import type { Graph } from "@/projection/graph";
import { goalWords } from "@/projection/status";
import { TONE_OF } from "@/shell/meaning";
import { select, useUi } from "@/state/ui";
import { compact, dollars } from "@/ui/amounts";
import { Status } from "@/ui/Badge";
import { cx } from "@/ui/cx";

/** What the agents below work on, how far they are and what it cost; opens the goal in the inspector. */
export function MissionHead({ graph }: { readonly graph: Graph }) {
  const chosen = useUi((state) => state.mission);
  const selection = useUi((state) => state.selection);
  const shown = standing(graph, shownMission(graph, chosen));
  if (shown === null) return null;
  const { word, meaning } = goalWords(shown.status);
  const isSelected = selection?.kind === "mission" && selection.id === shown.id;
  return (
    <section aria-label="Mission" className="border-b border-line bg-panel">
      <button
        type="button"
        aria-pressed={isSelected}
        title={shown.goal}
        onClick={() => select("mission", shown.id)}
        className={cx(
          "flex min-h-11 w-full flex-wrap items-center gap-x-4 gap-y-0.5 px-4 py-1.5 text-left -outline-offset-2 hover:bg-panel-2",
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
          {shown.others > 0 && <span>{counted(shown.others, "other goal")}</span>}
        </span>
      </button>
    </section>
  );
}
