import { type RefObject, useEffect, useRef } from "react";
import { Button } from "@/ui/Button";
import { IconButton } from "@/ui/IconButton";
import { CloseIcon, PlusIcon } from "@/ui/icons/icons";
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

/** How a goal is worked on: its model, its budget, its folder, its files. What is left empty is the server's own. */
export function GoalOptions({ id, wishes, onChange, onClose, opener }: GoalOptionsProps) {
  const picker = useRef<HTMLInputElement>(null);
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
      <div className="flex flex-wrap items-center gap-1.5 text-12">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files that go with the goal"
          onChange={(event) => {
            onChange({ files: [...wishes.files, ...(event.target.files ?? [])] });
            event.target.value = "";
          }}
        />
        <Button size="small" icon={<PlusIcon size={12} />} onClick={() => picker.current?.click()}>
          Attach
        </Button>
        {wishes.files.length === 0 && (
          <span className="text-ink-3">
            Images, sounds, PDFs and texts that all who work on it are shown.
          </span>
        )}
        {wishes.files.map((file, index) => (
          <span
            key={index}
            className="inline-flex items-center gap-1 rounded-control border border-line bg-panel-2 pl-2"
          >
            <span className="num">{file.name}</span>
            <IconButton
              label={`Leave ${file.name} out`}
              size="small"
              icon={<CloseIcon size={12} />}
              onClick={() => onChange({ files: wishes.files.filter((one) => one !== file) })}
            />
          </span>
        ))}
      </div>
    </fieldset>
  );
}
