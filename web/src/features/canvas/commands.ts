import { api, path } from "@/client/http";
import { canAct, type Command, type CommandState, type Enabled, no, YES } from "@/commands/command";
import { forgetPlaces, useCanvas } from "@/canvas/store";
import { type CanvasView, canvasView } from "@/canvas/view";
import { isFinal } from "@/projection/graph";
import type { Run } from "@/projection/graph";
import { toast } from "@/state/ui";

function onCanvas({ route }: CommandState): Enabled {
  return route.screen === "canvas" ? YES : no("Go to the canvas first.");
}

const look = (id: string, label: string, shortcut: string, run: (view: CanvasView) => void): Command => ({
  id: `canvas.${id}`,
  label,
  group: "Canvas",
  shortcut,
  enabled: onCanvas,
  run: () => {
    const view = canvasView();
    if (view !== null) run(view);
  },
});

const PAN = 120;

const views: readonly Command[] = [
  look("zoom_in", "Zoom in", "+", (view) => view.zoomBy(1.3)),
  look("zoom_out", "Zoom out", "-", (view) => view.zoomBy(1 / 1.3)),
  look("fit", "Show everything", "0", (view) => view.fit()),
  look("find", "Find on the canvas", "/", (view) => view.focusSearch()),
  look("pan_left", "Move the view left", "alt+shift+arrowleft", (view) => view.panBy(-PAN, 0)),
  look("pan_right", "Move the view right", "alt+shift+arrowright", (view) => view.panBy(PAN, 0)),
  look("pan_up", "Move the view up", "alt+shift+arrowup", (view) => view.panBy(0, -PAN)),
  look("pan_down", "Move the view down", "alt+shift+arrowdown", (view) => view.panBy(0, PAN)),
  {
    id: "canvas.arrange",
    label: "Put everything back in place",
    group: "Canvas",
    words: "layout arrange tidy positions",
    enabled: (state) =>
      useCanvas.getState().moved.size === 0 ? no("Nothing was moved by hand.") : onCanvas(state),
    run: () => forgetPlaces(),
  },
];

/** The run of the selected agent, if it has one that can still go on. */
function openRun({ ui, graph }: CommandState): Run | null {
  if (ui.selection?.kind !== "agent") return null;
  const run = graph.runs.get(graph.agents.get(ui.selection.id)?.runId ?? "");
  return run === undefined || isFinal(run.status) ? null : run;
}

function onAgent(
  verb: "pause" | "resume" | "step" | "stop",
  label: string,
  which: (run: Run) => boolean,
  otherwise: string,
): Command {
  return {
    id: `agent.${verb}`,
    label,
    group: "Agent",
    enabled: (state) => {
      const may = canAct(state);
      if (!may.ok) return may;
      if (state.ui.selection?.kind !== "agent") return no("Select an agent first.");
      const run = openRun(state);
      if (run === null) return no("This agent has no run that can go on.");
      return which(run) ? YES : no(otherwise);
    },
    run: async ({ ui }) => {
      if (ui.selection === null) return;
      await api.post(`${path("agents", ui.selection.id)}/${verb}`);
    },
  };
}

const isPaused = (run: Run): boolean => run.status === "paused";
const isOpen = (run: Run): boolean => !isFinal(run.status);
const isGoing = (run: Run): boolean => run.status !== "paused";

const agents: readonly Command[] = [
  onAgent("pause", "Pause the selected agent", isGoing, "It is paused."),
  onAgent("resume", "Resume the selected agent", isPaused, "It is not paused."),
  onAgent(
    "step",
    "Step the selected agent",
    isPaused,
    "Pause it first: a step takes it one iteration further.",
  ),
  onAgent("stop", "Stop the selected agent", isOpen, "It has ended."),
  {
    id: "agent.membership",
    label: "Join or leave a membrane",
    group: "Agent",
    words: "share context group",
    enabled: (state) => {
      const may = canAct(state);
      if (!may.ok) return may;
      return state.ui.selection?.kind === "agent" ? YES : no("Select an agent first.");
    },
    run: () => {
      const menu = document.querySelector<HTMLElement>("[data-canvas] [aria-haspopup=menu]");
      if (menu === null)
        toast("Go to the canvas first", { advice: "The menus Join… and Leave… stand there." });
      else menu.focus();
    },
  },
];

export const commands: readonly Command[] = [...views, ...agents];
