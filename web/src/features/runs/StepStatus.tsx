import { Status } from "@/ui/Badge";
import type { Tone } from "@/ui/tone";

const TONES: Readonly<Record<string, Tone>> = {
  completed: "money",
  requested: "agent",
  failed: "bad",
  unresolved: "warn",
  unknown: "warn",
};

export function StepStatus({ status }: { readonly status: string }) {
  return <Status tone={TONES[status] ?? "neutral"}>{status}</Status>;
}
