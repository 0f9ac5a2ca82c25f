import { useState } from "react";
import { unless } from "@/commands/command";
import { useGraph } from "@/state/log";
import { dollars } from "@/ui/amounts";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { Meter } from "@/ui/Meter";
import { TextField } from "@/ui/TextField";
import { microOf, raise, reachedLimit, suggestedUsd } from "./budget";
import type { Goal, GoalTask } from "./useGoals";

/** The amount and the way on stand in the same place: raising a limit goes on from where it stopped. */
export function BudgetReached({ goal, task }: { readonly goal: Goal; readonly task: GoalTask | null }) {
  const graph = useGraph();
  const limit = reachedLimit(graph, goal, task);
  const [text, setText] = useState(() => suggestedUsd(limit));
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const micro = microOf(text);
  const why =
    micro === null
      ? "Write dollars such as 0.80."
      : micro <= limit.spent
        ? `It has spent ${dollars(limit.spent)}; raise it above that.`
        : limit.cap !== null &&
          micro <= limit.cap &&
          `Its limit is ${dollars(limit.cap)}; raise it above that.`;
  const go = () => attempt(() => raise(goal, task, limit, text.trim()));
  return (
    <form
      className="flex flex-col gap-2.5"
      onSubmit={(event) => {
        event.preventDefault();
        if (may.ok && why === false && !busy) void go();
      }}
    >
      <Meter label="Budget used" value={1} max={1} valueText={`${dollars(limit.spent)} spent`} />
      <p className="text-12 text-ink-2">{limit.words}</p>
      <div className="flex flex-wrap items-end gap-2">
        <TextField
          label="Raise to, in dollars"
          inputMode="decimal"
          className="w-36"
          value={text}
          error={why === false ? undefined : why}
          onChange={(event) => setText(event.target.value)}
        />
        <ActionButton
          label="Raise and go on"
          type="submit"
          variant="primary"
          busy={busy}
          may={unless(may, why)}
        />
      </div>
    </form>
  );
}
