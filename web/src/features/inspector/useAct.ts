import { useState } from "react";
import { inWords } from "@/client/http";
import { canAct, type Enabled } from "@/commands/command";
import { toast, useUi } from "@/state/ui";

/** Whether this person may change something now, and why not. */
export function useCanAct(): Enabled {
  const ui = useUi();
  return canAct({ ui });
}

interface Act {
  readonly busy: boolean;
  /** Does it once at a time; what fails is told. Resolves to whether it went well. */
  readonly act: (task: () => Promise<unknown>, done?: string) => Promise<boolean>;
}

export function useAct(): Act {
  const [busy, setBusy] = useState(false);
  const act = async (task: () => Promise<unknown>, done?: string): Promise<boolean> => {
    setBusy(true);
    try {
      await task();
      if (done !== undefined) toast(done, { tone: "good" });
      return true;
    } catch (error) {
      const { title, advice } = inWords(error);
      toast(title, { tone: "bad", advice });
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { busy, act };
}
