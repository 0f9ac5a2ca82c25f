import { no, YES } from "./command";
import type { PaletteEntry } from "./paletteEntries";

const ACTIONS_MAX = 200;
const PALETTE = "[role=dialog]:has([data-palette])";

/**
 * The buttons that stand on the page now, so that the palette has every action of it. What is a command
 * already is left out, and so is what a dialog covers.
 */
export function pageActions(known: readonly Pick<PaletteEntry, "label">[]): readonly PaletteEntry[] {
  const taken = new Set(known.map((one) => one.label));
  const found: PaletteEntry[] = [];
  for (const button of ground().querySelectorAll<HTMLButtonElement>("button[data-action]")) {
    const label = nameOf(button);
    const place = placeOf(button);
    const key = place === "" ? label : `${label} · ${place}`;
    if (label === "" || taken.has(label) || taken.has(key) || button.closest(PALETTE) !== null) continue;
    taken.add(key);
    found.push({
      id: `page:${key}`,
      label,
      group: place === "" ? "On this page" : place,
      shortcut: undefined,
      text: `${label} ${place}`,
      enabled: whyNot(button),
      run: () => {
        button.focus();
        button.click();
      },
    });
    if (found.length === ACTIONS_MAX) break;
  }
  return found;
}

/** The topmost dialog, or all of the page. */
function ground(): ParentNode {
  return [...document.querySelectorAll(`[role=dialog]:not(:has([data-palette]))`)].at(-1) ?? document;
}

function nameOf(button: HTMLElement): string {
  return (button.getAttribute("aria-label") ?? button.textContent).trim();
}

/** The name of the part of the page that a button stands in. */
function placeOf(button: HTMLElement): string {
  const part = button.parentElement?.closest("section[aria-label], aside[aria-label], article[aria-label]");
  return part?.getAttribute("aria-label") ?? "";
}

function whyNot(button: HTMLButtonElement) {
  if (button.disabled) return no("It is at work.");
  if (button.getAttribute("aria-disabled") !== "true") return YES;
  return no(button.getAttribute("aria-description") ?? "It cannot be pressed now.");
}
