import { counted } from "@/projection/counted";
import { dollars, whole } from "@/ui/amounts";

/** Counters that are words in the plural; `ms` and assets are not. */
const COUNTED: Readonly<Record<string, string>> = { tokens: "token", steps: "step" };

/** An amount of an asset or counter in words; dollars are counted in micro-dollars. */
export function amountIn(unit: string, amount: number): string {
  if (unit === "usd") return dollars(amount);
  const noun = COUNTED[unit];
  return noun === undefined ? `${whole(amount)} ${unit}` : counted(amount, noun);
}
