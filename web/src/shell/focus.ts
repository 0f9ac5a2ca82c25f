/** Moves the focus to where the eye goes, as soon as it is there: on a panel that somebody has just opened. */
export function focusSoon(selector: string): void {
  let frames = FRAMES_MAX;
  const look = () => {
    const found = document.querySelector<HTMLElement>(selector);
    if (found !== null) found.focus();
    else if ((frames -= 1) > 0) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

/** A panel that loads its code for the first time takes a moment; later than this nobody expects a jump. */
const FRAMES_MAX = 60;

export function focusInspector(): void {
  focusSoon("[data-inspector]");
}

export function focusConsole(): void {
  focusSoon('[data-console] [role=tab][aria-selected="true"]');
}
