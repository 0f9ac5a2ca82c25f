import { useRef } from "react";
import { askGoal } from "@/shell/goalField";
import { ActionButton } from "@/shell/ActionButton";
import { useMayAct } from "@/shell/useMayAct";
import type { Goal } from "./useGoals";

/** Asks the same again with what was missing: the goal's words and the file stand in the bar then. */
export function AttachFile({ goal }: { readonly goal: Goal }) {
  const may = useMayAct();
  const picker = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        aria-label="Files for the same goal"
        onChange={(event) => {
          askGoal(goal.goal ?? "", [...(event.target.files ?? [])]);
          event.target.value = "";
        }}
      />
      <ActionButton
        label="Attach a file"
        may={may}
        hint="Asks the same again; all who work on it are shown the file"
        onClick={() => picker.current?.click()}
      />
    </>
  );
}
