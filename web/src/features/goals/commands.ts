import { canAct, type Command, no, YES } from "@/commands/command";
import { eventLog } from "@/state/log";
import { shownMission } from "@/projection/standing";
import { href, navigate } from "@/shell/route";

function goalOf(id: string | null, chosen: string): string {
  return id ?? shownMission(eventLog.graph, chosen);
}

export const commands: readonly Command[] = [
  {
    id: "goal.new",
    label: "New goal",
    group: "Goals",
    words: "ask plan start question",
    shortcut: "n",
    enabled: canAct,
    run: () => document.querySelector<HTMLInputElement>("#goal")?.focus(),
  },
  {
    id: "goal.canvas",
    label: "Show the goal on its canvas",
    group: "Goals",
    words: "map graph agents",
    enabled: ({ ui, route }) => (goalOf(route.id, ui.mission) === "" ? no("There is no goal yet.") : YES),
    run: ({ ui, route }) => navigate(href("canvas", goalOf(route.id, ui.mission))),
  },
  {
    id: "goal.answer",
    label: "Show the goal's answer",
    group: "Goals",
    words: "report result page",
    enabled: ({ ui, route }) => (goalOf(route.id, ui.mission) === "" ? no("There is no goal yet.") : YES),
    run: ({ ui, route }) => navigate(href("goals", goalOf(route.id, ui.mission))),
  },
];
