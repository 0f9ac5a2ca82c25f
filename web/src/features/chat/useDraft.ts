import { useState } from "react";
import { useUi } from "@/state/ui";

const PREFIX = "artelier.draft.";

function stored(key: string): string {
  try {
    return sessionStorage.getItem(PREFIX + key) ?? "";
  } catch {
    return "";
  }
}

/**
 * Words that were not said yet to a branch of a chat; a reload of the page keeps them. Nobody is shown what
 * another user, or the same one of another tenant, has typed.
 */
export function useDraft(
  chat: string,
  branch: string,
): readonly [words: string, setWords: (words: string) => void] {
  const me = useUi((state) => state.me);
  const key = JSON.stringify([me?.name ?? "", me?.tenant ?? "", chat, branch]);
  const [words, setWords] = useState(() => stored(key));
  const keep = (next: string) => {
    setWords(next);
    try {
      if (next === "") sessionStorage.removeItem(PREFIX + key);
      else sessionStorage.setItem(PREFIX + key, next);
    } catch {
      // A browser that keeps nothing loses them with the page.
    }
  };
  return [words, keep];
}
