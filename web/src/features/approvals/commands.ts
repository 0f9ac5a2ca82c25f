import { canAct, type Command, no, unless } from "@/commands/command";
import { waitingApprovals } from "@/projection/vitals";

export const commands: readonly Command[] = [
  {
    id: "approval.review",
    label: "Answer what waits for a person",
    group: "Approvals",
    words: "approve deny question review",
    shortcut: "a",
    enabled: (state) =>
      waitingApprovals(state.graph).length === 0
        ? no("Nothing waits for a person.")
        : unless(canAct(state), ""),
    run: () => document.querySelector<HTMLElement>("[data-matters] input, [data-matters] button")?.focus(),
  },
];
