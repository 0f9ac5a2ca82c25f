const KIB = 1024;

/** `812 B`, `14.2 KiB`, `64 MiB`. */
export function bytes(count: number): string {
  if (count < KIB) return `${count} B`;
  const [amount, unit] = count < KIB * KIB ? [count / KIB, "KiB"] : [count / (KIB * KIB), "MiB"];
  return `${Number.isInteger(amount) ? amount : amount.toFixed(1)} ${unit}`;
}
