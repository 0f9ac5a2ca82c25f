import { browser } from "@/client/browser";
import { ApiError, onSignedOut } from "@/client/http";
import { LiveFeed } from "@/client/live";
import { queryClient } from "@/client/queries";
import { fetchMe } from "@/client/session";
import { eventLog } from "@/state/log";
import { setUi, useUi } from "@/state/ui";

let feed: LiveFeed | null = null;

/** Finds out who is there and begins to listen. May be called again, after a sign-in or a change of tenant. */
export async function boot(): Promise<void> {
  try {
    const me = await fetchMe();
    if (useUi.getState().me?.tenant !== me.tenant) begin();
    setUi({ me, session: "signed_in" });
    feed?.start();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return; // `signedOut` has seen it
    setUi({ session: "unreachable" });
  }
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
    onEvents: (events) => eventLog.append(events),
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
