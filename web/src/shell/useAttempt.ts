import { useCallback, useRef, useState } from "react";
import { inWords } from "@/client/http";
import { toast } from "@/state/ui";
import type { ToastNote } from "@/ui/Toasts";

interface Done {
  readonly title: string;
  readonly advice?: string;
  readonly action?: NonNullable<ToastNote["action"]>;
}

interface Attempt {
  readonly busy: boolean;
  /** Does it, one thing at a time; what is refused is told. Resolves to whether it went well. */
  readonly attempt: <T>(task: () => Promise<T>, done?: string | ((value: T) => Done)) => Promise<boolean>;
}

/** For a control that has an effect on the server and is no command. */
export function useAttempt(): Attempt {
  const [busy, setBusy] = useState(false);
  const atWork = useRef(false);
  const attempt = useCallback<Attempt["attempt"]>(async (task, done = "") => {
    if (atWork.current) return false;
    atWork.current = true;
    setBusy(true);
    try {
      const value = await task();
      const told: Done = typeof done === "string" ? { title: done } : done(value);
      if (told.title !== "") toast(told.title, { tone: "good", ...told });
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
