import { api, type Page } from "./http";
import { PAGE_EVENTS, type Source, type Surroundings } from "./live";
import { readRows } from "./snapshot";
import type { Shape } from "./types";

/** What a `LiveFeed` needs, as the browser has it. */
export const browser: Surroundings = {
  open: (url) => new EventSource(url) as unknown as Source,
  snapshot: async (at, signal) => readRows(await api.get<Shape<"GraphOut">>("/graph", { at }, signal)),
  page: (after, signal) => api.get<Page<unknown>>("/events", { after, limit: PAGE_EVENTS }, signal),
  check: (signal) => api.get("/me", {}, signal),
  // A hidden page gets no frames, but its title and badges must not stand still.
  frame: (task) => {
    if (document.visibilityState === "visible") requestAnimationFrame(() => task());
    else setTimeout(task, 250);
  },
  later: (task, ms) => {
    const timer = setTimeout(task, ms);
    return () => clearTimeout(timer);
  },
  isOnline: () => navigator.onLine,
};
