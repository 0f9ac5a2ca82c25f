import { useSyncExternalStore } from "react";

/** Where one is: `/` is the goals, `/chat/m1%2Fletter?branch=main` is screen `chat` with the id `m1/letter`. */
export interface Route {
  readonly screen: string;
  readonly id: string | null;
  readonly query: Readonly<Record<string, string>>;
}

export const HOME = "goals";

export function parseRoute(pathname: string, search = ""): Route {
  const [first = "", second = ""] = pathname.split("/").slice(1);
  return {
    screen: first === "" ? HOME : first,
    id: second === "" ? null : decoded(second),
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

/** The address of a screen, or of one thing on it. */
export function href(screen: string, id?: string | null, query?: Readonly<Record<string, string>>): string {
  const rest = id === undefined || id === null || id === "" ? "" : `/${encodeURIComponent(id)}`;
  const path = screen === HOME && rest === "" ? "/" : `/${screen}${rest}`;
  const search = new URLSearchParams(query).toString();
  return search === "" ? path : `${path}?${search}`;
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

const listeners = new Set<() => void>();
let shown = { address: "", route: parseRoute("/") };

/** The same object as long as the address is the same. */
export function currentRoute(): Route {
  const address = window.location.pathname + window.location.search;
  if (address !== shown.address) {
    shown = { address, route: parseRoute(window.location.pathname, window.location.search) };
  }
  return shown.route;
}

export function navigate(to: string, { replace = false }: { readonly replace?: boolean } = {}): void {
  if (to === window.location.pathname + window.location.search) return;
  if (replace) window.history.replaceState(null, "", to);
  else window.history.pushState(null, "", to);
  listeners.forEach((listener) => listener());
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener("popstate", listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener("popstate", listener);
  };
}

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, currentRoute);
}
