import type { Run } from "@/projection/graph";
import { runWords } from "@/projection/status";
import { TONE_OF } from "@/shell/meaning";
import { Status } from "@/ui/Badge";

/** Where a run stands, in words, and why. */
export function RunStatus({ run }: { readonly run: Pick<Run, "status" | "reason"> }) {
  const { word, meaning } = runWords(run.status);
  const why = run.reason === "drifted" ? "its code had changed" : run.reason;
  return <Status tone={TONE_OF[meaning]}>{why === "" ? word : `${word}: ${why}`}</Status>;
}
