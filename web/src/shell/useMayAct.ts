import { useMemo } from "react";
import { canAct, type Enabled, no, YES } from "@/commands/command";
import { type UiState, useUi } from "@/state/ui";

function whyNot(ui: UiState): string {
  const enabled = canAct({ ui });
  return enabled.ok ? "" : enabled.why;
}

/** Whether this person may change something now, and if not, why. For controls that are no commands. */
export function useMayAct(): Enabled {
  const why = useUi(whyNot);
  return useMemo(() => (why === "" ? YES : no(why)), [why]);
}
