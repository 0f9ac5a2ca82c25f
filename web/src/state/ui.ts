import { create } from "zustand";
import type { Me } from "@/client/session";
import type { LiveState } from "@/client/live";

export type Theme = "system" | "light" | "dark";
/** Whether things may move: as the system says, or never. */
export type Motion = "system" | "reduced";
export type SelectionKind = "agent" | "artifact" | "task" | "membrane" | "run" | "mission";

export interface Selection {
  readonly kind: SelectionKind;
  readonly id: string;
}

export interface Toast {
  readonly id: number;
  readonly tone: "info" | "good" | "bad";
  readonly title: string;
  readonly advice: string;
  /** What can be done about it, such as undo. */
  readonly action?: ToastAction | undefined;
}

export interface ToastAction {
  readonly label: string;
  readonly run: () => void;
}

/** What only this browser knows: where one looks. What happened is in the event log, never here. */
export interface UiState {
  readonly me: Me | null;
  /** `waiting`: no server has answered yet, and it is asked again. `refused`: it will say the same again. */
  readonly session: "unknown" | "signed_in" | "signed_out" | "waiting" | "refused";
  readonly refusal: { readonly title: string; readonly advice: string } | null;
  /** Whether this server knows people by name and password; else the link is the way in. */
  readonly isByPassword: boolean;
  readonly live: LiveState;
  readonly theme: Theme;
  readonly motion: Motion;
  readonly selection: Selection | null;
  /** The mission that the bar speaks of; "" is the newest. */
  readonly mission: string;
  /** The mission whose plan is looked at as soon as it is there; "" for none. */
  readonly plan: string;
  /** null: now. A position: every view shows the past. */
  readonly travel: number | null;
  readonly isPaletteOpen: boolean;
  readonly isInspectorOpen: boolean;
  readonly isConsoleOpen: boolean;
  readonly consoleTab: string;
  readonly consoleHeight: number;
  readonly inspectorWidth: number;
  readonly toasts: readonly Toast[];
}

export const TOASTS_MAX = 4;
const STORED = "artelier.ui";
const KEPT = [
  "theme",
  "motion",
  "isInspectorOpen",
  "isConsoleOpen",
  "consoleTab",
  "consoleHeight",
  "inspectorWidth",
] as const;

/** Below the width of a tablet the console begins closed: there it would leave no room for the screen. */
const TABLET_PX = 768;

const INITIAL: UiState = {
  me: null,
  session: "unknown",
  refusal: null,
  isByPassword: false,
  live: "loading",
  theme: "system",
  motion: "system",
  selection: null,
  mission: "",
  plan: "",
  travel: null,
  isPaletteOpen: false,
  isInspectorOpen: true,
  isConsoleOpen: window.innerWidth >= TABLET_PX,
  consoleTab: "",
  consoleHeight: 268,
  inspectorWidth: 372,
  toasts: [],
};

/** What was kept, as far as it has the form that it should have. */
export function restored(stored: string | null): Partial<UiState> {
  try {
    const value = JSON.parse(stored ?? "{}") as Record<string, unknown>;
    const kept: Record<string, unknown> = {};
    for (const name of KEPT) if (typeof value[name] === typeof INITIAL[name]) kept[name] = value[name];
    if (!["system", "light", "dark"].includes(String(kept["theme"]))) delete kept["theme"];
    if (!["system", "reduced"].includes(String(kept["motion"]))) delete kept["motion"];
    return kept;
  } catch {
    return {};
  }
}

export const useUi = create<UiState>()(() => ({ ...INITIAL, ...restored(readStored()) }));

useUi.subscribe((state, before) => {
  if (KEPT.every((name) => state[name] === before[name])) return;
  try {
    localStorage.setItem(STORED, JSON.stringify(Object.fromEntries(KEPT.map((name) => [name, state[name]]))));
  } catch {
    // A browser that keeps nothing (private window, full disk) begins anew next time.
  }
});

function readStored(): string | null {
  try {
    return localStorage.getItem(STORED);
  } catch {
    return null;
  }
}

export const setUi = useUi.setState;

let toastCount = 0;

/** Says something that the person should notice; the oldest gives way. */
export function toast(
  title: string,
  options: {
    readonly advice?: string;
    readonly tone?: Toast["tone"];
    readonly action?: ToastAction;
  } = {},
): void {
  toastCount += 1;
  const { tone = "info", advice = "", action } = options;
  const next: Toast = { id: toastCount, tone, title, advice, action };
  setUi((state) => ({ toasts: [...state.toasts, next].slice(-TOASTS_MAX) }));
}

export function dismissToast(id: number): void {
  setUi((state) => ({ toasts: state.toasts.filter((one) => one.id !== id) }));
}

export function select(kind: SelectionKind, id: string): void {
  setUi({ selection: { kind, id }, isInspectorOpen: true });
}

/** Puts the whole state back to how a first visit finds it; for tests. */
export function resetUi(fields: Partial<UiState> = {}): void {
  setUi({ ...INITIAL, ...fields }, true);
}
