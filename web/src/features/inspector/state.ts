import { create } from "zustand";
import { idOf } from "@/projection/event";
import { select, useUi } from "@/state/ui";

/** Where one looks within the inspector; kept while other things are selected. */
export interface InspectorState {
  readonly agentTab: string;
  readonly artifactTab: string;
  readonly membraneTab: string;
  /** What a click on evidence asked for: that version, with these words marked. */
  readonly wanted: { readonly id: string; readonly version: number | null; readonly quote: string } | null;
}

export const useInspector = create<InspectorState>()(() => ({
  agentTab: "steering",
  artifactTab: "content",
  membraneTab: "members",
  wanted: null,
}));

// What was cited is forgotten as soon as something else is selected.
useUi.subscribe(({ selection }) => {
  const { wanted } = useInspector.getState();
  if (wanted !== null && selection?.id !== wanted.id) useInspector.setState({ wanted: null });
});

/** `churn/table@2` is version 2; a ref without one is the newest. */
export function versionOf(ref: string): number | null {
  const version = Number(/@(\d+)/.exec(ref)?.[1]);
  return Number.isSafeInteger(version) && version > 0 ? version : null;
}

/** Shows an artifact as it was cited, with the quoted words marked. */
export function openArtifact(ref: string, quote = ""): void {
  const id = idOf(ref);
  useInspector.setState({ wanted: { id, version: versionOf(ref), quote }, artifactTab: "content" });
  select("artifact", id);
}
