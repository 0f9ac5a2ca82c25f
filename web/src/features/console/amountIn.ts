import { dollars, whole } from "@/ui/amounts";

/** An amount of an asset or counter in words; dollars are counted in micro-dollars. */
export function amountIn(unit: string, amount: number): string {
  return unit === "usd" ? dollars(amount) : `${whole(amount)} ${unit}`;
}
