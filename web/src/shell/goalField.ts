const ASKED = "artelier:goal";

/** Puts words into the field of the bar where a goal is typed, for a person to change and to send. */
export function askGoal(words: string): void {
  window.dispatchEvent(new CustomEvent(ASKED, { detail: words }));
}

/** Calls back with the words that somebody wants to ask; the way to stop that. */
export function onGoalAsked(listener: (words: string) => void): () => void {
  const heard = (event: Event) => {
    if (event instanceof CustomEvent && typeof event.detail === "string") listener(event.detail);
  };
  window.addEventListener(ASKED, heard);
  return () => window.removeEventListener(ASKED, heard);
}
