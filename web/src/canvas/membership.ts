import { api, inWords, path } from "@/client/http";
import { shortName } from "@/projection/event";
import type { Graph } from "@/projection/graph";
import { eventLog } from "@/state/log";
import { toast } from "@/state/ui";
import { membershipKey, type Pending } from "./scene";
import { setCanvas, useCanvas } from "./store";

export interface Change {
  readonly agent: string;
  readonly membrane: string;
  readonly isIn: boolean;
}

function setPending(change: Change, isIn: boolean | null): void {
  const pending = new Map(useCanvas.getState().pending);
  const key = membershipKey(change.agent, change.membrane);
  if (isIn === null) pending.delete(key);
  else pending.set(key, isIn);
  setCanvas({ pending });
}

function names(change: Change): { readonly agent: string; readonly membrane: string } {
  const { agents, membranes } = eventLog.graph;
  return {
    agent: agents.get(change.agent)?.name ?? shortName(change.agent),
    membrane: membranes.get(change.membrane)?.name ?? shortName(change.membrane),
  };
}

/**
 * Lets an agent join or leave a membrane; shown at once, taken back if the server refuses. `undo` puts back
 * what else the person did, such as a drag; false if it was refused.
 */
export async function changeMembership(change: Change, undo: () => void = () => undefined): Promise<boolean> {
  const { agent, membrane } = names(change);
  setPending(change, change.isIn);
  try {
    const verb = change.isIn ? "join" : "leave";
    await api.post(`${path("membranes", change.membrane)}/${verb}`, { agent: change.agent });
  } catch (error) {
    setPending(change, null);
    undo();
    const { title, advice } = inWords(error);
    toast(title, { tone: "bad", advice });
    return false;
  }
  settle(eventLog.graph);
  toast(change.isIn ? `${agent} joined ${membrane}` : `${agent} left ${membrane}`, {
    tone: "good",
    advice: change.isIn
      ? "From its next step on it reads what is shared there."
      : "It reads what is shared there no more.",
    action: {
      label: "Undo",
      run: () => {
        undo();
        void changeMembership({ ...change, isIn: !change.isIn });
      },
    },
  });
  return true;
}

/** What the events have told is pending no more. */
export function stillPending(graph: Graph, pending: Pending): Pending {
  const open = [...pending].filter(([key, isIn]) => {
    const [agent = "", membrane = ""] = key.split(" ");
    const known = graph.membranes.get(membrane);
    return known !== undefined && known.members.has(agent) !== isIn;
  });
  return open.length === pending.size ? pending : new Map(open);
}

export function settle(graph: Graph): void {
  const { pending } = useCanvas.getState();
  const open = stillPending(graph, pending);
  if (open !== pending) setCanvas({ pending: open });
}
