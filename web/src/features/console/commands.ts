import { type Command, no, YES } from "@/commands/command";
import { forkRun, mayFork } from "@/commands/fork";
import { eventLog } from "@/state/log";
import { setUi } from "@/state/ui";
import { setConsole, useConsole } from "./consoleStore";
import { forkChoices } from "./forkTarget";
import { TABS } from "./tabs";

const tabs: readonly Command[] = TABS.map((tab) => ({
  id: `console.${tab.id}`,
  label: `Show ${tab.label}`,
  group: "Console",
  words: "console drawer tab",
  enabled: () => YES,
  run: () => setUi({ isConsoleOpen: true, consoleTab: tab.id }),
}));

export const commands: readonly Command[] = [
  ...tabs,
  {
    id: "console.pause",
    label: "Pause or follow the live stream",
    group: "Console",
    shortcut: "alt+p",
    words: "freeze hold scroll",
    enabled: ({ ui }) => (ui.travel === null ? YES : no("The past does not move.")),
    run: () => setConsole(({ pausedAt }) => ({ pausedAt: pausedAt === null ? eventLog.position : null })),
  },
  {
    id: "run.fork_here",
    label: "Fork from here",
    group: "Runs",
    words: "branch what if timeline",
    enabled: (state) => {
      const may = mayFork(state);
      if (!may.ok) return may;
      return forkChoices(state, useConsole.getState()).length > 0 ? YES : no("No run had begun here.");
    },
    run: async (state) => {
      const point = forkChoices(state, useConsole.getState())[0];
      if (point !== undefined) await forkRun(point.runId, { at: point.seq });
    },
  },
];
