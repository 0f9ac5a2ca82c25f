import type { Shape } from "@/client/types";
import { dollars, whole } from "@/ui/amounts";

type Limit = Shape<"Limit">;

const UNITS: Readonly<Record<string, string>> = {
  usd: "money",
  tokens: "tokens",
  steps: "steps",
  ms: "time",
};

function amount(unit: string, value: number): string {
  if (unit === "usd") return dollars(value);
  if (unit === "ms") return `${whole(Math.round(value / 1000))} s`;
  return whole(value);
}

/** `tokens`: `12,000 of 100,000 used, 800 held`. */
export function limitWords(limit: Limit): { readonly name: string; readonly words: string } {
  const used = amount(limit.unit, limit.used);
  const cap = limit.cap === null ? "used, without a limit" : `of ${amount(limit.unit, limit.cap)} used`;
  const held = limit.reserved > 0 ? `, ${amount(limit.unit, limit.reserved)} held` : "";
  return { name: UNITS[limit.unit] ?? limit.unit, words: `${used} ${cap}${held}` };
}

/** `60 requests and 90,000 tokens in any minute`. */
export function rateWords(rate: Shape<"RateShown">): string {
  const parts = [
    rate.requests === null ? "" : `${whole(rate.requests)} requests`,
    rate.tokens === null ? "" : `${whole(rate.tokens)} tokens`,
  ].filter((part) => part !== "");
  return `${parts.join(" and ")} in any minute`;
}
