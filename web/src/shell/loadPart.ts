import { ApiError } from "@/client/http";
import { fetchMe } from "@/client/session";

const ASK_MS = 1_000;
/** A part that fails again within this time after a reload is broken, and says so. */
const RELOADED_MS = 20_000;
const RELOADED = "artelier.reloaded";

/**
 * Loads a part of the page that the first visit did not need. If the server is away, or another version of it
 * has other files, the page begins anew as soon as it answers: a browser asks for a failed module only once.
 * Errors: those of `load`, if a new beginning has just not helped.
 */
export async function loadPart<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if (hasJustReloaded()) throw error;
    await untilServed();
    sessionStorage.setItem(RELOADED, String(Date.now()));
    window.location.reload();
    return await new Promise<never>(() => undefined); // nothing more is drawn by this page
  }
}

function hasJustReloaded(): boolean {
  try {
    return Date.now() - Number(sessionStorage.getItem(RELOADED) ?? 0) < RELOADED_MS;
  } catch {
    return true; // a browser that keeps nothing would begin anew for ever
  }
}

async function untilServed(): Promise<void> {
  for (;;) {
    try {
      await fetchMe();
      return;
    } catch (error) {
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) return;
    }
    await new Promise((go) => setTimeout(go, ASK_MS));
  }
}
