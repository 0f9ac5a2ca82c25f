import { useState } from "react";

const PREFIX = "artelier.draft.";

function stored(key: string): string {
  try {
    return sessionStorage.getItem(PREFIX + key) ?? "";
  } catch {
    return "";
  }
}

/** Words that were not said yet; a reload of the page keeps them. */
export function useDraft(key: string): readonly [words: string, setWords: (words: string) => void] {
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
