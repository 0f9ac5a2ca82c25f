import { useCallback, useRef, useState } from "react";
import { inWords } from "@/client/http";
import { toast } from "@/state/ui";

interface Attempt {
  readonly busy: boolean;
  /** Does it, one thing at a time; what is refused is told. Resolves to whether it went well. */
  readonly attempt: (task: () => Promise<unknown>, done?: string) => Promise<boolean>;
}

/** For a control that has an effect on the server and is no command. */
export function useAttempt(): Attempt {
  const [busy, setBusy] = useState(false);
  const atWork = useRef(false);
  const attempt = useCallback(async (task: () => Promise<unknown>, done = ""): Promise<boolean> => {
    if (atWork.current) return false;
    atWork.current = true;
    setBusy(true);
    try {
      await task();
      if (done !== "") toast(done, { tone: "good" });
      return true;
    } catch (error) {
      const { title, advice } = inWords(error);
      toast(title, { tone: "bad", advice });
      return false;
    } finally {
      atWork.current = false;
      setBusy(false);
    }
  }, []);
  return { busy, attempt };
}
