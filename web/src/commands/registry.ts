import { inWords } from "@/client/http";
import { currentRoute } from "@/shell/route";
import { shownGraph } from "@/state/log";
import { toast, useUi } from "@/state/ui";
import type { Command, CommandState } from "./command";
import { Keyboard } from "./keyboard";
import { navigationCommands } from "./navigation";
import { runCommands } from "./runs";

/** A screen brings its commands along as `export const commands: readonly Command[]` in `commands.ts`. */
const brought = import.meta.glob<readonly Command[]>("../features/*/commands.ts", {
  eager: true,
  import: "commands",
});

export const allCommands: readonly Command[] = [
  ...navigationCommands,
  ...runCommands,
  ...Object.values(brought).flat(),
];

const byId = new Map(allCommands.map((command) => [command.id, command]));

export function commandOf(id: string): Command | undefined {
  return byId.get(id);
}

/** The present for commands; while one travels in time they see what the person sees. */
export function commandState(): CommandState {
  const ui = useUi.getState();
  return { ui, graph: shownGraph(), route: currentRoute() };
}

/** Runs a command if it may run now. What is refused, or fails, is told. */
export async function runCommand(id: string): Promise<void> {
  const command = byId.get(id);
  if (command === undefined) return;
  const state = commandState();
  const enabled = command.enabled(state);
  if (!enabled.ok) {
    toast(`${command.label}: not now`, { advice: enabled.why });
    return;
  }
  try {
    await command.run(state);
  } catch (error) {
    const { title, advice } = inWords(error);
    toast(title, { tone: "bad", advice });
  }
}

export const keyboard = new Keyboard(
  allCommands.flatMap((command) =>
    command.shortcut === undefined ? [] : [[command.shortcut, command.id] as const],
  ),
);
