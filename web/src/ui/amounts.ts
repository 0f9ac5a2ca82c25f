/** Micro-dollars as people read them: `$0.412`, `$12.40`, `$0.000120`; never rounded to nothing. */
export function dollars(microusd: number): string {
  const amount = Math.abs(microusd) / 1_000_000;
  const digits = amount === 0 ? 2 : amount >= 10 ? 2 : amount >= 0.001 ? 3 : 6;
  return `${microusd < 0 ? "-" : ""}$${amount.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

/** `812`, `14.2k`, `3.1M`. */
export function compact(count: number): string {
  if (count < 1000) return String(count);
  if (count < 999_950) return `${(count / 1000).toFixed(1)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

export function whole(count: number): string {
  return count.toLocaleString("en-US");
}
