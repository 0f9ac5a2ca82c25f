import { type FormEvent, useCallback, useEffect, useRef, useState } from "react";
import { canAct, unless } from "@/commands/command";
import { commandState, runCommand } from "@/commands/registry";
import { ActionButton } from "@/shell/ActionButton";
import { onGoalAsked } from "@/shell/goalField";
import { useProjection } from "@/state/log";
import { setUi, useUi } from "@/state/ui";
import { IconButton } from "@/ui/IconButton";
import { SearchIcon, SettingsIcon } from "@/ui/icons/icons";
import { GoalOptions } from "./GoalOptions";
import { budgetMistake, NO_WISHES, wishWords } from "./goalWishes";
import { PlanDialog } from "./PlanDialog";
import { PlanState } from "./PlanState";
import { editedGoal } from "./keptDraft";
import { openPlans } from "./plans";
import { usePlan } from "./usePlan";
import { useFailedPlan } from "./useFailedPlan";

/** The goal in the bar: type it, see its plan, launch it. */
export default function GodMode() {
  const ui = useUi();
  const [goal, setGoal] = useState("");
  const [wishes, setWishes] = useState(NO_WISHES);
  const [isOpen, setOpen] = useState(false);
  const options = useRef<HTMLSpanElement>(null);
  const closeOptions = useCallback(() => setOpen(false), []);
  const wished = wishWords(wishes);
  const field = useRef<HTMLInputElement>(null);
  const { isAsking, ask } = usePlan();
  const plans = useProjection(openPlans);
  const may = canAct(commandState());
  const reviewed = plans.find((one) => one.run.id === ui.plan);
  useFailedPlan(ui.plan);

  const { name = "", tenant = "" } = ui.me ?? {};
  useEffect(() => {
    const edited = editedGoal(name, tenant);
    if (edited !== "") setUi((state) => (state.plan === "" ? { plan: edited } : state));
  }, [name, tenant]);

  useEffect(() => {
    if (may.ok) return;
    setUi((state) => (state.travel !== null && state.plan !== "" ? { plan: "" } : state));
  }, [may.ok]);

  useEffect(
    () =>
      onGoalAsked((words, files) => {
        setGoal(words);
        setWishes((before) => (files.length === 0 ? before : { ...before, files }));
        field.current?.focus();
      }),
    [],
  );

  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    if (!may.ok || isAsking || goal.trim() === "") return;
    if (budgetMistake(wishes.budget) !== undefined) {
      setOpen(true);
      return;
    }
    void ask(goal.trim(), wishes).then((isAsked) => {
      if (!isAsked) return;
      setGoal("");
      setWishes(NO_WISHES);
      setOpen(false);
    });
  };

  return (
    <>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- Escape in any of its fields */}
      <form
        onSubmit={onSubmit}
        onKeyDown={(event) => event.key === "Escape" && setOpen(false)}
        className="relative flex min-w-0 flex-1 items-center gap-2"
      >
        <div className="flex h-9 min-w-0 flex-1 items-center gap-2.5 rounded-control border border-edge bg-paper pr-1 pl-3 focus-within:outline-2 focus-within:outline-accent">
          <label htmlFor="goal" className="text-accent">
            Goal
          </label>
          <input
            ref={field}
            id="goal"
            name="goal"
            autoComplete="off"
            maxLength={100_000}
            value={goal}
            disabled={!may.ok}
            placeholder={may.ok ? "What should be found out or made?" : may.why}
            onChange={(event) => setGoal(event.target.value)}
            className="h-full min-w-0 flex-1 bg-transparent outline-none disabled:cursor-not-allowed"
          />
          {wished !== "" && (
            <span className="max-w-40 truncate text-11 text-ink-3 max-tablet:hidden">{wished}</span>
          )}
          <span ref={options} className="contents">
            <IconButton
              label="Model, budget, folder and files of the goal"
              size="small"
              icon={<SettingsIcon size={14} />}
              aria-expanded={isOpen}
              aria-controls={isOpen ? "goal-options" : undefined}
              onClick={() => setOpen(!isOpen)}
            />
          </span>
          <IconButton
            label="Search and run commands"
            shortcut="mod+k"
            size="small"
            icon={<SearchIcon size={14} />}
            onClick={() => void runCommand("palette.open")}
          />
        </div>
        <ActionButton
          label="Plan"
          type="submit"
          variant="primary"
          busy={isAsking}
          may={unless(may, goal.trim() === "" && "Type a goal first.")}
          hint="Says who would do what, and what it may cost; nothing begins yet"
        />
        {isOpen && (
          <GoalOptions
            id="goal-options"
            wishes={wishes}
            onChange={(change) => setWishes((before) => ({ ...before, ...change }))}
            onClose={closeOptions}
            opener={options}
          />
        )}
      </form>
      <PlanState plans={plans} />
      {reviewed?.isReady === true && (
        <PlanDialog mission={reviewed.run.id} onClose={() => setUi({ plan: "" })} />
      )}
    </>
  );
}
