import { useState } from "react";
import { api, inWords, path } from "@/client/http";
import { canAct, type Enabled } from "@/commands/command";
import { commandState } from "@/commands/registry";
import { toast, useUi } from "@/state/ui";
import type { Shape } from "@/client/types";
import type { Matter } from "./inbox";

export type Reconciling =
  | { readonly answer: "succeeded"; readonly result: unknown }
  | { readonly answer: "failed"; readonly message: string }
  | { readonly answer: "retry" | "probe" };

interface Answering {
  readonly busy: boolean;
  readonly error: string;
  readonly may: Enabled;
  readonly approve: (note: string, args?: { readonly value: unknown }) => Promise<boolean>;
  readonly deny: (note: string) => Promise<boolean>;
  readonly reconcile: (how: Reconciling) => Promise<boolean>;
}

/** Answers a matter. That it is settled is told by events; until then it stays where it is. */
export function useAnswer(matter: Matter): Answering {
  useUi();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const send = async (verb: string, body: unknown, done: (goesOn: string) => string): Promise<boolean> => {
    setBusy(true);
    setError("");
    try {
      const effect = await api.post<Shape<"Effect">>(`${path("runs", matter.runId)}/${verb}`, body);
      toast(done(goesOn(matter, effect.queued)), { tone: "good" });
      return true;
    } catch (refusal) {
      const { title, advice } = inWords(refusal);
      setError(`${title} ${advice}`.trim());
      return false;
    } finally {
      setBusy(false);
    }
  };
  const step = matter.step;
  return {
    busy,
    error,
    may: canAct(commandState()),
    approve: (note, args) =>
      send(
        "approve",
        { step, decision: "approve", note, ...(args === undefined ? {} : { arguments: args.value }) },
        (goesOn) => `${args === undefined ? "Approved" : "Approved with changes"}: ${goesOn}`,
      ),
    deny: (note) => send("approve", { step, decision: "deny", note }, (goesOn) => `Denied: ${goesOn}`),
    reconcile: (how) => send("reconcile", { step, ...how }, (goesOn) => `Settled: ${goesOn}`),
  };
}

/** Who takes it from here: a run of somebody's own code, which nobody drives now, waits for its program. */
function goesOn(matter: Matter, isQueued: boolean): string {
  return isQueued && matter.ownCode
    ? `${matter.who} goes on when the program that started it is run again`
    : `${matter.who} goes on`;
}
