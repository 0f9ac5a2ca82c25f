import type { CommandState } from "@/commands/command";
import { type ForkPoint, forkPoints, indexAt } from "@/projection/timeline";
import { eventLog } from "@/state/log";
import type { ConsoleState } from "./consoleStore";

type Seen = Pick<CommandState, "ui" | "graph">;

/** The runs that can be forked at the moment one looks at; the one that is meant comes first. */
export function forkChoices({ ui, graph }: Seen, console: ConsoleState): readonly ForkPoint[] {
  const events = eventLog.events();
  const index = ui.travel === null ? events.length - 1 : indexAt(events, ui.travel);
  const points = forkPoints(events, index);
  const meant = [console.forkOf, selectedRun({ ui, graph }), console.looked?.runId ?? ""];
  const first = meant.map((id) => points.find((point) => point.runId === id)).find(Boolean);
  return first === undefined ? points : [first, ...points.filter((point) => point !== first)];
}

/** The run that is selected, itself or by its agent, task or mission. */
export function selectedRun({ ui, graph }: Seen): string {
  const selection = ui.selection;
  if (selection === null) return "";
  if (selection.kind === "agent") return graph.agents.get(selection.id)?.runId ?? "";
  return graph.runs.has(selection.id) ? selection.id : "";
}
