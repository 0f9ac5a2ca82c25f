import type { Meaning } from "@/projection/status";
import { TONE_OF } from "@/shell/meaning";
import { Status } from "@/ui/Badge";

const WORDS: Readonly<Record<string, readonly [word: string, meaning: Meaning]>> = {
  completed: ["done", "good"],
  requested: ["running", "working"],
  failed: ["failed", "bad"],
  unresolved: ["unresolved", "attention"],
  unknown: ["unknown outcome", "attention"],
};

export function StepStatus({ status }: { readonly status: string }) {
  const [word, meaning] = WORDS[status] ?? [status, "quiet"];
  return <Status tone={TONE_OF[meaning]}>{word}</Status>;
}
