import { type ComponentType, lazy } from "react";
import { loadPart } from "./loadPart";

/** Places of the frame that a feature fills with `features/<name>/panel.tsx`. Without it the place is not there. */
export type PanelName =
  /** Right: what is selected. */
  | "inspector"
  /** Bottom drawer: stream, context, decisions, ledger, timeline. */
  | "console"
  /** Bar: the goal and its plan. */
  | "godmode"
  /** Always in sight while one waits: what people are asked. */
  | "approvals";

const loaders = import.meta.glob<{ readonly default: ComponentType }>("../features/*/panel.tsx");

export function isPanelBuilt(name: PanelName): boolean {
  return loaders[`../features/${name}/panel.tsx`] !== undefined;
}

function panel(name: PanelName): ComponentType | null {
  const loader = loaders[`../features/${name}/panel.tsx`];
  return loader === undefined ? null : lazy(() => loadPart(loader));
}

export const panels: Readonly<Record<PanelName, ComponentType | null>> = {
  inspector: panel("inspector"),
  console: panel("console"),
  godmode: panel("godmode"),
  approvals: panel("approvals"),
};
