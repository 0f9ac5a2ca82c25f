import { browser } from "@/client/browser";
import { ApiError, inWords, onSignedOut } from "@/client/http";
import { LiveFeed } from "@/client/live";
import { queryClient } from "@/client/queries";
import { fetchMe } from "@/client/session";
import { eventLog } from "@/state/log";
import { setUi, useUi } from "@/state/ui";

let feed: LiveFeed | null = null;
let retry: ReturnType<typeof setTimeout> | undefined;

/** How long a page that found no server waits before it asks again; the last one from then on. */
const RETRY_MS = [500, 1_000, 2_000, 3_000];

/** A server that answers later than this starts, or is busy. */
const SLOW_MS = 1_500;

/**
 * Finds out who is there and begins to listen. May be called again, after a sign-in or a change of tenant.
 * While the server starts or is away it asks again by itself; `attempt` counts how often it has.
 */
export async function boot(attempt = 0): Promise<void> {
  clearTimeout(retry);
  const slow = setTimeout(() => {
    if (useUi.getState().session === "unknown") setUi({ session: "waiting" });
  }, SLOW_MS);
  try {
    const me = await fetchMe();
    if (useUi.getState().me?.tenant !== me.tenant) begin();
    setUi({ me, session: "signed_in" });
    feed?.start();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return; // `signedOut` has seen it
    if (useUi.getState().session === "signed_in") return feed?.start(); // it says so, and what is shown stays
    if (isPassing(error)) {
      setUi({ session: "waiting" });
      const wait = RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)];
      retry = setTimeout(() => void boot(attempt + 1), wait);
    } else {
      setUi({ session: "refused", refusal: inWords(error) });
    }
  } finally {
    clearTimeout(slow);
  }
}

/** Whether the same question may have another answer in a moment: nobody answers, or a proxy does instead. */
function isPassing(error: unknown): boolean {
  return !(error instanceof ApiError) || error.status === 0 || error.status === 429 || error.status >= 500;
}

/** Nothing of another tenant stays on the screen. */
function begin(): void {
  feed?.stop();
  eventLog.clear();
  queryClient.clear();
  setUi({ selection: null, mission: "", plan: "", travel: null, live: "loading" });
  feed = new LiveFeed({
    outside: browser,
    onBegin: (snapshot) => eventLog.begin(snapshot),
    onWindow: (stretch) => eventLog.prepend(stretch),
    onChange: (now, events) => eventLog.advance(now, events),
    onState: (live) => {
      const before = useUi.getState().live;
      setUi({ live });
      // Details may have changed while nobody told us.
      if (live === "live" && before !== "loading") void queryClient.invalidateQueries();
    },
  });
}

function signedOut(error: ApiError): void {
  feed?.stop();
  feed = null;
  eventLog.clear();
  queryClient.clear();
  // A wrong password is refused without a hint: the way in stays what it was.
  setUi((state) => ({
    me: null,
    session: "signed_out",
    isByPassword: error.hint === null ? state.isByPassword : error.hint.includes("/login"),
  }));
}

/** What a choice looks like is the style sheet's business; `system` chooses nothing. */
function setLook(name: string, value: string): void {
  if (value === "system") delete document.documentElement.dataset[name];
  else document.documentElement.dataset[name] = value;
}

/** Once, when the page begins. */
export function install(): void {
  onSignedOut(signedOut);
  window.addEventListener("online", () => feed?.networkChanged());
  window.addEventListener("offline", () => feed?.networkChanged());
  // A browser keeps pages that were left, with their connections, of which a host has six.
  window.addEventListener("pagehide", () => feed?.stop());
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) feed?.start();
  });
  const applyLook = () => {
    const { theme, motion } = useUi.getState();
    setLook("theme", theme);
    setLook("motion", motion);
  };
  applyLook();
  useUi.subscribe(applyLook);
}
