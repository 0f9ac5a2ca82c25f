import { useMemo } from "react";
import type { Command, Enabled } from "@/commands/command";
import { commandOf, runCommand } from "@/commands/registry";
import { useGraph } from "@/state/log";
import { useUi } from "@/state/ui";
import { useRoute } from "./route";

interface BoundCommand {
  readonly command: Command;
  readonly enabled: Enabled;
  readonly run: () => void;
}

/** A command for a button: whether it may run now, and how. Errors: `Error` for an id that nobody has. */
export function useCommand(id: string): BoundCommand {
  const command = commandOf(id);
  if (command === undefined) throw new Error(`there is no command ${id}`);
  const ui = useUi();
  const graph = useGraph();
  const route = useRoute();
  return useMemo(
    () => ({
      command,
      enabled: command.enabled({ ui, graph, route }),
      run: () => void runCommand(command.id),
    }),
    [command, ui, graph, route],
  );
}
