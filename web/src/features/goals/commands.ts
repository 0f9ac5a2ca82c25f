import { api, path } from "@/client/http";
import { canAct, type Command, type CommandState, no, unless, YES } from "@/commands/command";
import { eventLog } from "@/state/log";
import { isFinal } from "@/projection/graph";
import type { Run } from "@/projection/graph";
import { shownMission } from "@/projection/standing";
import { href, navigate } from "@/shell/route";
import { setUi } from "@/state/ui";

function goalOf(id: string | null, chosen: string): string {
  return id ?? shownMission(eventLog.graph, chosen);
}

/** The goal that is open, or that the bar speaks of, or the newest. */
function openGoal({ ui, graph, route }: CommandState): Run | undefined {
  const id = route.screen === "goals" || route.screen === "canvas" ? route.id : null;
  return graph.runs.get(id ?? shownMission(graph, ui.mission));
}

function onGoal(
  rest: Pick<Command, "id" | "label" | "words">,
  fits: (goal: Run, state: CommandState) => string,
  run: (goal: Run) => void | Promise<void>,
): Command {
  return {
    group: "Goals",
    ...rest,
    enabled: (state) => {
      const goal = openGoal(state);
      return goal === undefined ? no("There is no goal yet.") : unless(canAct(state), fits(goal, state));
    },
    run: async (state) => {
      const goal = openGoal(state);
      if (goal !== undefined) await run(goal);
    },
  };
}

const ended = (goal: Run): string => (isFinal(goal.status) ? "It has ended." : "");

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
  onGoal(
    { id: "goal.review", label: "Review the goal's plan", words: "launch estimate approve" },
    (goal) => (goal.status === "waiting_approval" ? "" : "No plan of it waits for you."),
    (goal) => setUi({ plan: goal.id }),
  ),
  onGoal(
    { id: "goal.pause", label: "Pause the goal", words: "hold wait" },
    (goal) => ended(goal) || (goal.status === "paused" ? "It is paused." : ""),
    (goal) => api.post("/runs/pause-all", {}, { mission: goal.id }),
  ),
  onGoal({ id: "goal.resume", label: "Resume the goal", words: "go on continue" }, ended, (goal) =>
    api.post("/runs/resume-all", {}, { mission: goal.id }),
  ),
  onGoal(
    { id: "goal.retry", label: "Retry the goal", words: "again failed blocked" },
    (goal) => (isFinal(goal.status) && goal.status !== "completed" ? "" : "Only what failed is retried."),
    (goal) => api.post(`${path("runs", goal.id)}/retry`),
  ),
  onGoal({ id: "goal.cancel", label: "Cancel the goal", words: "end discard abort" }, ended, (goal) =>
    api.post(`${path("runs", goal.id)}/cancel`, { note: "" }),
  ),
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
