import { api, path } from "@/client/http";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { setUi } from "@/state/ui";
import { dollars } from "@/ui/amounts";
import { cx } from "@/ui/cx";
import { AskElse } from "./AskElse";
import { BudgetReached } from "./BudgetReached";
import { mustBeAskedAnew, type Outcome, type OutcomeKind, questionThatWorks } from "./outcome";
import { RetryWithNote } from "./RetryWithNote";
import type { Goal } from "./useGoals";

const EDGE: Readonly<Partial<Record<OutcomeKind, string>>> = {
  blocked: "border-l-bad",
  failed: "border-l-bad",
  budget: "border-l-warn",
  asks: "border-l-warn",
  ready: "border-l-warn",
  paused: "border-l-warn",
  unknown: "border-l-warn",
};

/** Why there is no answer yet: the cause in one sentence, what it cost, and what helps. */
export function OutcomeCard({ goal, outcome }: { readonly goal: Goal; readonly outcome: Outcome }) {
  if (outcome.kind === "working") return null;
  return (
    <section
      aria-label="Where it stands"
      className={cx(
        "flex max-w-176 flex-col gap-2.5 rounded-card border border-l-2 border-line bg-panel px-4.5 py-4",
        EDGE[outcome.kind] ?? "border-l-agent",
      )}
    >
      <div className="flex flex-wrap items-baseline justify-between gap-3">
        <h3 className="text-15 font-semibold">{outcome.title}</h3>
        <span className="num text-ink-2">{costWords(goal)}</span>
      </div>
      <p className="text-15 break-words whitespace-pre-wrap">{outcome.sentence}</p>
      <Remedy goal={goal} outcome={outcome} />
    </section>
  );
}

function costWords(goal: Goal): string {
  const cost = dollars(goal.cost_microusd);
  return goal.budget_microusd === null || goal.budget_microusd === undefined
    ? `${cost} spent`
    : `${cost} of ${dollars(goal.budget_microusd)}`;
}

function Remedy({ goal, outcome }: { readonly goal: Goal; readonly outcome: Outcome }) {
  switch (outcome.kind) {
    case "ready":
      return <Press label="Review the plan" primary onClick={() => setUi({ plan: goal.id })} />;
    case "budget":
      return <BudgetReached goal={goal} task={outcome.task} />;
    case "paused":
      return (
        <Press label="Resume" primary task={() => api.post("/runs/resume-all", {}, { mission: goal.id })} />
      );
    case "blocked":
    case "failed":
      return <Ways goal={goal} outcome={outcome} />;
    case "cancelled":
      return <AskElse goal={goal} />;
    case "planning":
      return <Press label="Discard" task={() => api.post(`${path("runs", goal.id)}/cancel`, { note: "" })} />;
    default:
      return null;
  }
}

/** The one that helps is first: where a question is known to work, or a retry meets the same again, that is to ask. */
function Ways({ goal, outcome }: { readonly goal: Goal; readonly outcome: Outcome }) {
  const isAnswerable = questionThatWorks(goal) === "" && !mustBeAskedAnew(outcome.task);
  return (
    <div className="flex flex-col gap-2.5">
      {!isAnswerable && <AskElse goal={goal} />}
      <RetryWithNote goal={goal} task={outcome.task} primary={isAnswerable} />
      {isAnswerable && <AskElse goal={goal} />}
    </div>
  );
}

interface PressProps {
  readonly label: string;
  readonly primary?: boolean;
  readonly task?: () => Promise<unknown>;
  readonly onClick?: () => void;
}

function Press({ label, primary = false, task, onClick }: PressProps) {
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  return (
    <div>
      <ActionButton
        label={label}
        variant={primary ? "primary" : "plain"}
        may={may}
        busy={busy}
        onClick={() => (task === undefined ? onClick?.() : void attempt(task))}
      />
    </div>
  );
}
