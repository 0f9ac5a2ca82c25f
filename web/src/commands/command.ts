import { isUnread } from "@/client/live";
import type { Graph } from "@/projection/graph";
import type { Route } from "@/shell/route";
import type { UiState } from "@/state/ui";

/** What a command may look at. */
export interface CommandState {
  readonly ui: UiState;
  readonly graph: Graph;
  readonly route: Route;
}

export type Enabled = { readonly ok: true } | { readonly ok: false; readonly why: string };

export const YES: Enabled = { ok: true };

export function no(why: string): Enabled {
  return { ok: false, why };
}

/** The first reason against it: what held before, then its own; without one it may be. */
export function unless(may: Enabled, why: string | false | null): Enabled {
  return may.ok && why !== false && why !== null && why !== "" ? no(why) : may;
}

/** One user action. Buttons, menus, shortcuts and the palette all run the same one. */
export interface Command {
  /** `noun.verb`, such as `run.pause_all`. */
  readonly id: string;
  /** What it does, in the imperative. */
  readonly label: string;
  /** Heading in the palette and in the list of shortcuts. */
  readonly group: string;
  /** `mod+k`, `alt+p`, or a sequence such as `g c`. */
  readonly shortcut?: string;
  /** Further words that the palette finds it by. */
  readonly words?: string;
  readonly enabled: (state: CommandState) => Enabled;
  readonly run: (state: CommandState) => void | Promise<void>;
}

/** A change needs a connection, the right, and the present: nobody acts in the past. */
export function canAct({ ui }: Pick<CommandState, "ui">): Enabled {
  if (ui.me === null) return no("Sign in first.");
  if (ui.me.role === "viewer") return no("Your role is viewer: you can look, not act.");
  if (ui.travel !== null) return no("You are looking at the past. Go back to now first.");
  if (ui.live === "offline") return no("This device is offline.");
  if (isUnread(ui.live)) return no("What happened so far is being read. It may act in a moment.");
  if (ui.live !== "live")
    return no("There is no connection: what you see is old. It may act when it is back.");
  return YES;
}
