import { useState } from "react";
import { showNewest } from "@/canvas/view";
import { api, ApiError, inWords, path } from "@/client/http";
import { canAct, type Enabled } from "@/commands/command";
import { commandState } from "@/commands/registry";
import { queryClient } from "@/client/queries";
import { setUi, toast, useUi } from "@/state/ui";
import { type Draft, type Mistakes, mistakesOf, planOf, refusedOf } from "./draft";

interface Launching {
  readonly mistakes: Mistakes;
  /** How many launches were refused, by this page or by the server. */
  readonly refusals: number;
  readonly busy: "" | "launch" | "discard";
  readonly may: Enabled;
  readonly launch: () => Promise<void>;
  readonly discard: () => Promise<void>;
}

const NONE: Mistakes = new Map();

/** What was launched is what one wants to see, also where another goal was chosen or the view was moved. */
function bringIntoView(mission: string): void {
  setUi((state) => (state.mission === "" ? state : { mission }));
  showNewest();
}

/** What Launch and Discard do, and what is wrong with the plan as it stands now. */
export function useLaunch(mission: string, draft: Draft, isChanged: boolean, onDone: () => void): Launching {
  useUi();
  const [busy, setBusy] = useState<Launching["busy"]>("");
  const [refusals, setRefusals] = useState(0);
  const [isTried, setTried] = useState(false);
  const [refused, setRefused] = useState<{ readonly draft: Draft; readonly mistakes: Mistakes } | null>(null);
  const own = mistakesOf(draft);
  // What the server said holds for the plan that it saw.
  const theirs = refused?.draft === draft ? refused.mistakes : NONE;

  const launch = async () => {
    setTried(true);
    if (own.size > 0) {
      setRefusals((count) => count + 1);
      return;
    }
    setBusy("launch");
    try {
      await api.post(`${path("god-mode", mission)}/launch`, isChanged ? { plan: planOf(draft) } : {});
      void queryClient.invalidateQueries({ queryKey: ["missions"] });
      bringIntoView(mission);
      onDone();
    } catch (error) {
      const message = inWords(error);
      const mistakes = error instanceof ApiError && error.status === 422 ? refusedOf(error.message) : null;
      setRefusals((count) => count + 1);
      setRefused({ draft, mistakes: mistakes ?? new Map([["", `${message.title} ${message.advice}`]]) });
    } finally {
      setBusy("");
    }
  };

  const discard = async () => {
    setBusy("discard");
    try {
      await api.post(`${path("runs", mission)}/cancel`, { note: "The plan was discarded." });
      toast("Discarded", { advice: "Nothing of the plan was begun." });
      onDone();
    } catch (error) {
      const { title, advice } = inWords(error);
      setRefused({ draft, mistakes: new Map([["", `${title} ${advice}`]]) });
    } finally {
      setBusy("");
    }
  };

  const mistakes = theirs.size > 0 ? theirs : isTried ? own : NONE;
  return { mistakes, refusals, busy, may: canAct(commandState()), launch, discard };
}
