import { useState } from "react";
import { inWords } from "@/client/http";
import { toast, type ToastAction } from "@/state/ui";

interface Done {
  readonly title: string;
  readonly advice?: string;
  readonly action?: ToastAction;
}

interface Act {
  readonly isBusy: boolean;
  /** Does something once at a time; what fails is told. Resolves to its value, or null if it failed. */
  readonly act: <T>(task: () => Promise<T>, done?: (value: T) => Done | null) => Promise<T | null>;
}

export function useAct(): Act {
  const [isBusy, setBusy] = useState(false);
  const act = async <T>(task: () => Promise<T>, done?: (value: T) => Done | null): Promise<T | null> => {
    setBusy(true);
    try {
      const value = await task();
      const words = done?.(value) ?? null;
      if (words !== null) toast(words.title, { tone: "good", ...words });
      return value;
    } catch (error) {
      const { title, advice } = inWords(error);
      toast(title, { tone: "bad", advice });
      return null;
    } finally {
      setBusy(false);
    }
  };
  return { isBusy, act };
}
