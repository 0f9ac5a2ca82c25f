import type { ConsoleRow, RowFilterGroup, RowGroup } from "@/projection/rows";
import type { Option } from "@/ui/Select";
import type { Tone } from "@/ui/tone";

const TONES: Readonly<Record<RowGroup, Tone>> = {
  decision: "agent",
  action: "membrane",
  artifact: "artifact",
  money: "money",
  approval: "warn",
  verdict: "membrane",
  note: "membrane2",
  run: "neutral",
  bookkeeping: "neutral",
};

export function rowTone(row: ConsoleRow): Tone {
  return row.isFailure ? "bad" : TONES[row.group];
}

export const GROUPS: readonly Option<RowFilterGroup>[] = [
  { value: "main", label: "Without bookkeeping" },
  { value: "all", label: "Every event" },
  { value: "decision", label: "Decisions" },
  { value: "action", label: "Actions and tools" },
  { value: "artifact", label: "Artifacts" },
  { value: "verdict", label: "Evaluations" },
  { value: "approval", label: "Approvals" },
  { value: "money", label: "Money" },
  { value: "note", label: "Notes and steering" },
  { value: "run", label: "Runs and tasks" },
  { value: "failure", label: "Failures" },
];
