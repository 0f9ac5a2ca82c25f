import { useState } from "react";
import { api, inWords, path } from "@/client/http";
import { canAct, type Enabled } from "@/commands/command";
import { commandState } from "@/commands/registry";
import { toast, useUi } from "@/state/ui";
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
  const send = async (verb: string, body: unknown, done: string): Promise<boolean> => {
    setBusy(true);
    setError("");
    try {
      await api.post(`${path("runs", matter.runId)}/${verb}`, body);
      toast(done, { tone: "good" });
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
        args === undefined
          ? `Approved: ${matter.who} goes on`
          : `Approved with changes: ${matter.who} goes on`,
      ),
    deny: (note) => send("approve", { step, decision: "deny", note }, `Denied: ${matter.who} is told`),
    reconcile: (how) => send("reconcile", { step, ...how }, "Settled: the run goes on"),
  };
}
