import type { RowFilterGroup } from "@/projection/rows";
import type { Option } from "@/ui/Select";

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
