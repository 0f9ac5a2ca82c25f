import { type RefObject, useEffect } from "react";
import { Switch } from "@/ui/Switch";
import { TextField } from "@/ui/TextField";
import { ModelList } from "./ModelList";
import { budgetMistake, type GoalWishes } from "./goalWishes";

interface GoalOptionsProps {
  readonly id: string;
  readonly wishes: GoalWishes;
  readonly onChange: (change: Partial<GoalWishes>) => void;
  readonly onClose: () => void;
  /** What opened it; a press there closes it by itself. */
  readonly opener: RefObject<HTMLElement | null>;
}

/** How a goal is worked on: its model, its budget, its folder. What is left empty is the server's own. */
export function GoalOptions({ id, wishes, onChange, onClose, opener }: GoalOptionsProps) {
  useEffect(() => {
    const onPress = (event: PointerEvent) => {
      const { target } = event;
      const isInside =
        target instanceof Node &&
        (document.getElementById(id)?.contains(target) || opener.current?.contains(target));
      if (isInside !== true) onClose();
    };
    document.addEventListener("pointerdown", onPress);
    return () => document.removeEventListener("pointerdown", onPress);
  }, [id, onClose, opener]);
  return (
    <fieldset
      id={id}
      className="absolute top-full left-0 z-40 mt-1 flex w-full max-w-md flex-col gap-3 rounded-card border border-edge bg-panel p-3"
    >
      <legend className="sr-only">How the goal is worked on</legend>
      <TextField
        label="Model"
        value={wishes.model}
        list="plan-models"
        maxLength={200}
        placeholder="the server's own"
        onChange={(event) => onChange({ model: event.target.value })}
      />
      <ModelList />
      <TextField
        label="Budget in USD"
        inputMode="decimal"
        value={wishes.budget}
        placeholder="no limit of its own"
        error={budgetMistake(wishes.budget)}
        hint="The goal with all its tasks never costs more than this and the calls that were on their way."
        onChange={(event) => onChange({ budget: event.target.value })}
      />
      <Switch
        label="Cap it at the plan's estimate too"
        checked={wishes.atMost}
        onChange={(atMost) => onChange({ atMost })}
      />
      <TextField
        label="Folder that its tools work on"
        value={wishes.workspace}
        maxLength={4000}
        placeholder="the server's own"
        hint="A folder of the server, below those that it was started with."
        onChange={(event) => onChange({ workspace: event.target.value })}
      />
    </fieldset>
  );
}
