import type { Meaning } from "@/projection/status";
import type { Tone } from "@/ui/tone";

/** The colour of a status, the same on every screen. */
export const TONE_OF: Readonly<Record<Meaning, Tone>> = {
  quiet: "neutral",
  working: "agent",
  attention: "warn",
  good: "money",
  bad: "bad",
};
