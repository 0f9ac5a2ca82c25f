const ASKED = "artelier:goal";

/** What goes into the bar where a goal is typed. */
interface Asked {
  readonly words: string;
  readonly files: readonly File[];
}

/** Puts words, and files that go with them, into the field of the bar, for a person to change and to send. */
export function askGoal(words: string, files: readonly File[] = []): void {
  window.dispatchEvent(new CustomEvent<Asked>(ASKED, { detail: { words, files } }));
}

/** Calls back with what somebody wants to ask; the way to stop that. */
export function onGoalAsked(listener: (words: string, files: readonly File[]) => void): () => void {
  const heard = (event: Event) => {
    const { words, files } = (event as CustomEvent<Asked>).detail;
    listener(words, files);
  };
  window.addEventListener(ASKED, heard);
  return () => window.removeEventListener(ASKED, heard);
}
