import { create } from "zustand";
import { idOf } from "@/projection/event";
import { select } from "@/state/ui";

/** Where one looks within the inspector; kept while other things are selected. */
export interface InspectorState {
  readonly agentTab: string;
  readonly artifactTab: string;
  /** What a click on evidence asked for: that version, with these words marked. */
  readonly wanted: { readonly id: string; readonly version: number | null; readonly quote: string } | null;
}

export const useInspector = create<InspectorState>()(() => ({
  agentTab: "steering",
  artifactTab: "content",
  wanted: null,
}));

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
