import { navigate } from "@/shell/route";
import { focusConsole, focusInspector } from "@/shell/focus";
import { builtScreens } from "@/shell/screens";
import { isPanelBuilt } from "@/shell/panels";
import { setUi, type Theme } from "@/state/ui";
import { type Command, type CommandState, no, YES } from "./command";

const go: readonly Command[] = builtScreens().map((screen) => ({
  id: `go.${screen.id}`,
  label: `Go to ${screen.label}`,
  group: "Go",
  ...(screen.shortcut === null ? {} : { shortcut: screen.shortcut }),
  enabled: () => YES,
  run: () => navigate(screen.path),
}));

const themes: readonly Command[] = (["system", "light", "dark"] as const).map((theme: Theme) => ({
  id: `theme.${theme}`,
  label: theme === "system" ? "Follow the system's theme" : `Use the ${theme} theme`,
  group: "View",
  words: "colours appearance",
  enabled: ({ ui }) => (ui.theme === theme ? no("It is in use.") : YES),
  run: () => setUi({ theme }),
}));

/** A panel that is not there has no command either. */
const panels: readonly Command[] = [
  ...(isPanelBuilt("inspector")
    ? [
        {
          id: "view.toggle_inspector",
          label: "Show or hide the inspector",
          group: "View",
          shortcut: "mod+i",
          enabled: () => YES,
          run: ({ ui }: CommandState) => {
            setUi({ isInspectorOpen: !ui.isInspectorOpen });
            if (!ui.isInspectorOpen) focusInspector();
          },
        },
      ]
    : []),
  ...(isPanelBuilt("console")
    ? [
        {
          id: "view.toggle_console",
          label: "Show or hide the console",
          group: "View",
          shortcut: "mod+j",
          enabled: () => YES,
          run: ({ ui }: CommandState) => {
            setUi({ isConsoleOpen: !ui.isConsoleOpen });
            if (!ui.isConsoleOpen) focusConsole();
          },
        },
      ]
    : []),
  {
    id: "view.now",
    label: "Back to now",
    group: "View",
    words: "time travel present live",
    shortcut: "g n",
    enabled: ({ ui }) => (ui.travel === null ? no("This is now.") : YES),
    run: () => setUi({ travel: null }),
  },
  {
    id: "view.deselect",
    label: "Select nothing",
    group: "View",
    enabled: ({ ui }) => (ui.selection === null ? no("Nothing is selected.") : YES),
    run: () => setUi({ selection: null }),
  },
];

const palette: Command = {
  id: "palette.open",
  label: "Search and run commands",
  group: "General",
  shortcut: "mod+k",
  enabled: () => YES,
  run: () => setUi((state) => ({ isPaletteOpen: !state.isPaletteOpen })),
};

export const navigationCommands: readonly Command[] = [palette, ...go, ...panels, ...themes];
