import { bringIntoView } from "@/canvas/view";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { select, setUi, toast } from "@/state/ui";
import { type CommandState, type Enabled, no, YES } from "./command";

/** A fork changes nothing of the past, so that it is made from there as well. */
export function mayFork({ ui }: Pick<CommandState, "ui">): Enabled {
  if (ui.me === null) return no("Sign in first.");
  if (ui.me.role === "viewer") return no("Your role is viewer: you can look, not act.");
  if (ui.live === "offline") return no("This device is offline.");
  return YES;
}

/** Makes a new run that shares history up to `at` (its end left out if null), and shows it, now. */
export async function forkRun(
  runId: string,
  fields: Partial<Pick<Shape<"Forking">, "at" | "changes" | "new_id" | "effects">> = {},
): Promise<string> {
  const made = await api.post<Shape<"Forked">>(`${path("runs", runId)}/fork`, fields);
  setUi({ travel: null });
  select("run", made.run_id);
  bringIntoView(`task:${made.run_id}`);
  toast(`The fork ${made.run_id} is made`, { tone: "good" });
  return made.run_id;
}
