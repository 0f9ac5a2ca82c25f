import { allTasks, liveAgents, madeArtifacts, liveMembranes, missions } from "@/projection/vitals";
import { href, navigate } from "@/shell/route";
import { type SelectionKind, select } from "@/state/ui";
import { focusInspector } from "@/shell/focus";
import { type CommandState, type Enabled, YES } from "./command";
import { pageActions } from "./pageActions";
import { allCommands, runCommand } from "./registry";

export interface PaletteEntry {
  readonly id: string;
  readonly label: string;
  readonly group: string;
  readonly shortcut: string | undefined;
  /** What it is found by. */
  readonly text: string;
  readonly enabled: Enabled;
  readonly run: () => void;
}

const THINGS_MAX = 2000;

/** Every command, those that can run first, then every thing that can be selected. */
export function paletteEntries(state: CommandState): readonly PaletteEntry[] {
  const commands = allCommands
    .filter((command) => command.id !== "palette.open")
    .map((command) => ({
      id: command.id,
      label: command.label,
      group: command.group,
      shortcut: command.shortcut,
      text: `${command.label} ${command.group} ${command.words ?? ""}`,
      enabled: command.enabled(state),
      run: () => void runCommand(command.id),
    }))
    .sort((a, b) => Number(b.enabled.ok) - Number(a.enabled.ok));
  const { graph } = state;
  const things = [
    ...missions(graph).map(({ id }) => ({
      ...thing("mission", id, graph.runs.get(id)?.goal ?? ""),
      group: "goal",
      run: () => navigate(href("goals", id)),
    })),
    ...liveAgents(graph).map((one) => thing("agent", one.id, one.name)),
    ...allTasks(graph).map((one) => thing("task", one.id, one.goal)),
    ...liveMembranes(graph).map((one) => thing("membrane", one.id, one.name)),
    ...madeArtifacts(graph).map((one) => thing("artifact", one.id, one.title)),
  ];
  return [...commands, ...pageActions(commands), ...things.slice(0, THINGS_MAX)];
}

function thing(kind: SelectionKind, id: string, name: string): PaletteEntry {
  return {
    id: `${kind}:${id}`,
    label: name === "" || name === id ? id : `${name.slice(0, 80)} · ${id}`,
    group: kind,
    shortcut: undefined,
    text: `${name} ${id} ${kind}`,
    enabled: YES,
    run: () => {
      select(kind, id);
      focusInspector();
    },
  };
}
