import { useSyncExternalStore } from "react";

const PHONE = "(max-width: 767px)";

function subscribe(listener: () => void): () => void {
  const media = window.matchMedia(PHONE);
  media.addEventListener("change", listener);
  return () => media.removeEventListener("change", listener);
}

/** Whether the window is too narrow for a canvas; it then gets lists. */
export function useIsPhone(): boolean {
  return useSyncExternalStore(subscribe, () => window.matchMedia(PHONE).matches);
}
