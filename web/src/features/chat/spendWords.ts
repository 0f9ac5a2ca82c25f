import type { Spend } from "@/projection/graph";
import { compact, dollars } from "@/ui/amounts";

/** `$0.012 · 1.4k tokens`; a call without a known price makes it a lower bound, and that is said. */
export function spendWords(spend: Spend | undefined): string {
  if (spend === undefined || spend.calls + spend.inputTokens + spend.outputTokens === 0) return "";
  const money = `${spend.unpriced > 0 ? "at least " : ""}${dollars(spend.microusd)}`;
  return `${money} · ${compact(spend.inputTokens + spend.outputTokens)} tokens`;
}
