import { type Command, type CommandState, no, YES } from "@/commands/command";
import { href, navigate } from "@/shell/route";

/** The run of what is selected: itself, or that of its agent, task or mission. */
function runOf({ ui, graph }: CommandState): string {
  const { selection } = ui;
  if (selection === null) return "";
  if (selection.kind === "agent") return graph.agents.get(selection.id)?.runId ?? "";
  return graph.runs.has(selection.id) ? selection.id : "";
}

export const commands: readonly Command[] = [
  {
    id: "run.open",
    label: "Open the selected run",
    group: "Runs",
    words: "steps prompts events detail",
    enabled: (state) => (runOf(state) === "" ? no("Select something that has a run.") : YES),
    run: (state) => navigate(href("runs", runOf(state))),
  },
];
