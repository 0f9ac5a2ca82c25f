import type { Run } from "@/projection/graph";
import { runWords } from "@/projection/status";
import { TONE_OF } from "@/shell/meaning";
import { Status } from "@/ui/Badge";

/** Where a run stands, in words, and why. */
export function RunStatus({ run }: { readonly run: Pick<Run, "status" | "reason"> }) {
  const { word, meaning } = runWords(run.status);
  return <Status tone={TONE_OF[meaning]}>{run.reason === "" ? word : `${word}: ${run.reason}`}</Status>;
}
