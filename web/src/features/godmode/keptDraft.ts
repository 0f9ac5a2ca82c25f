import { useState } from "react";
import { useUi } from "@/state/ui";
import type { Draft } from "./draft";

/** `restored`: changes that were made before a reload. `outdated`: they were made to an older plan, and are gone. */
export type Kept = "nothing" | "restored" | "outdated";

interface Found {
  readonly kept: Kept;
  readonly draft: Draft;
}

const PREFIX = "artelier.plan.";

/** What a plan is kept under: nobody is shown what another user, or the same one of another tenant, has typed. */
interface Place {
  readonly user: string;
  readonly tenant: string;
  readonly mission: string;
}

/** A plan that is being edited; a reload of the page keeps the changes, as long as the plan is the same. */
export function useKeptDraft(mission: string, proposed: Draft) {
  const me = useUi((state) => state.me);
  const place: Place = { user: me?.name ?? "", tenant: me?.tenant ?? "", mission };
  const [{ kept, draft }, setFound] = useState(() => read(place, proposed));
  const isChanged = JSON.stringify(draft) !== JSON.stringify(proposed);
  const change = (next: Draft) => {
    setFound({ kept, draft: next });
    write(place, proposed, next, true);
  };
  /** Takes the plan as it was proposed. */
  const reset = () => {
    setFound({ kept: "nothing", draft: proposed });
    forget(place);
  };
  /** The changes stay for the next look; a reload does not open the plan again. */
  const close = () => write(place, proposed, draft, false);
  return { draft, kept, isChanged, change, reset, close, forget: () => forget(place) };
}

/** The goal whose plan somebody was editing when the page was reloaded, by a person or by itself; "" for none. */
export function editedGoal(user: string, tenant: string): string {
  try {
    for (const [key, value] of Object.entries(sessionStorage) as [string, string][]) {
      if (!key.startsWith(PREFIX)) continue;
      const [ofUser, ofTenant, mission] = JSON.parse(key.slice(PREFIX.length)) as unknown[];
      const { isOpen } = JSON.parse(value) as { readonly isOpen?: unknown };
      if (ofUser === user && ofTenant === tenant && isOpen === true && typeof mission === "string")
        return mission;
    }
  } catch {
    // What is kept in another form opens nothing.
  }
  return "";
}

function read(place: Place, proposed: Draft): Found {
  const nothing: Found = { kept: "nothing", draft: proposed };
  try {
    forgetOthers(place.user);
    const stored = JSON.parse(sessionStorage.getItem(slot(place)) ?? "null") as unknown;
    if (typeof stored !== "object" || stored === null) return nothing;
    const { base, draft } = stored as Record<string, unknown>;
    if (base === JSON.stringify(proposed) && isDraft(draft)) return { kept: "restored", draft };
    sessionStorage.removeItem(slot(place));
    return { kept: "outdated", draft: proposed };
  } catch {
    return nothing;
  }
}

function write(place: Place, proposed: Draft, draft: Draft, isOpen: boolean): void {
  const base = JSON.stringify(proposed);
  try {
    if (JSON.stringify(draft) === base) sessionStorage.removeItem(slot(place));
    else sessionStorage.setItem(slot(place), JSON.stringify({ base, draft, isOpen }));
  } catch {
    // A browser that keeps nothing loses the changes with the page.
  }
}

function forget(place: Place): void {
  try {
    sessionStorage.removeItem(slot(place));
  } catch {
    // There was nothing to forget.
  }
}

function slot({ user, tenant, mission }: Place): string {
  return PREFIX + JSON.stringify([user, tenant, mission]);
}

/** Whoever signs in here next leaves nothing of those before in this browser. */
function forgetOthers(user: string): void {
  for (const key of Object.keys(sessionStorage)) {
    if (key.startsWith(PREFIX) && !key.startsWith(`${PREFIX}[${JSON.stringify(user)},`))
      sessionStorage.removeItem(key);
  }
}

const FIELDS: Readonly<Record<keyof Draft, Readonly<Record<string, "text" | "texts" | "record">>>> = {
  agents: { slug: "text", name: "text", role: "text", tools: "text", model: "text", budget: "text" },
  tasks: {
    slug: "text",
    goal: "text",
    criteria: "text",
    agent: "text",
    dependsOn: "texts",
    iterations: "text",
    rest: "record",
  },
  membranes: { slug: "text", name: "text", members: "texts", budget: "text", shared: "texts" },
};

const HAS_FORM = {
  text: (value: unknown) => typeof value === "string",
  texts: (value: unknown) => Array.isArray(value) && value.every((one) => typeof one === "string"),
  record: (value: unknown) => typeof value === "object" && value !== null,
};

/** Another version of the page may have kept it, in a form of its own. */
function isDraft(value: unknown): value is Draft {
  if (!HAS_FORM.record(value)) return false;
  return Object.entries(FIELDS).every(([part, fields]) => {
    const entries = (value as Record<string, unknown>)[part];
    return (
      Array.isArray(entries) &&
      (entries as unknown[]).every(
        (one) =>
          HAS_FORM.record(one) &&
          Object.entries(fields).every(([name, form]) =>
            HAS_FORM[form]((one as Record<string, unknown>)[name]),
          ),
      )
    );
  });
}
