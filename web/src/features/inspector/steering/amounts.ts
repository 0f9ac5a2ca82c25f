import type { Shape } from "@/client/types";
import { dollars } from "@/ui/amounts";

export type Safety = Shape<"Sliders">["safety"];

/** From the laxest to the strictest, as the server orders them. */
export const SAFETY: readonly Safety[] = ["open", "approve_high", "approve_medium", "read_only"];

const SAFETY_WORDS: Readonly<Record<Safety, string>> = {
  open: "as the tenant's policy says",
  approve_high: "approve high risk",
  approve_medium: "approve medium and high risk",
  read_only: "reading only",
};

export function safetyWords(safety: Safety): string {
  return SAFETY_WORDS[safety];
}

export const ITERATIONS = { min: 1, max: 20 } as const;
export const DEPTH = { min: 0, max: 5 } as const;

const BYTES: readonly number[] = [
  1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 65_536, 131_072, 262_144, 524_288, 1_000_000,
];

/** Stops of the slider of sizes; the size that is in force is one of them. */
export function byteStops(current: number): readonly number[] {
  return BYTES.includes(current) ? BYTES : [...BYTES, current].sort((a, b) => a - b);
}

export function bytesWords(bytes: number): string {
  if (bytes >= 1_000_000) return `${bytes / 1_000_000} MB`;
  return `${Number((bytes / 1_000).toFixed(1))} kB`;
}

export function depthWords(depth: number): string {
  if (depth === 0) return "hands nothing on";
  return depth === 1 ? "1 level" : `${depth} levels`;
}

const ROOM_USD: readonly number[] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000, 100_000, 1_000_000];

/** `"0.60"` in micro-dollars, exact; null for no limit. */
export function micro(usd: string | null): number | null {
  if (usd === null) return null;
  const [whole = "0", cents = ""] = usd.split(".");
  return Number(whole) * 1_000_000 + Number(cents.padEnd(6, "0").slice(0, 6));
}

/** End of the budget's slider in cents: with room above what is set and what is used. */
export function budgetEnd(capMicrousd: number | null, usedMicrousd: number): number {
  const wanted = Math.max((capMicrousd ?? 0) * 1.25, usedMicrousd * 2) / 1_000_000;
  return (ROOM_USD.find((one) => one >= wanted) ?? 10_000_000) * 100;
}

/** Cents as the API takes dollars: `60` is `"0.60"`. */
export function usdOf(cents: number): string {
  return (cents / 100).toFixed(2);
}

export function budgetWords(capMicrousd: number | null, usedMicrousd: number | null): string {
  const used = usedMicrousd ?? 0;
  if (capMicrousd === null) return usedMicrousd === null ? "no limit" : `no limit, ${dollars(used)} used`;
  if (usedMicrousd === null) return dollars(capMicrousd);
  const left = capMicrousd - used;
  return left < 0
    ? `${dollars(capMicrousd)}, ${dollars(-left)} over`
    : `${dollars(capMicrousd)}, ${dollars(left)} left`;
}
