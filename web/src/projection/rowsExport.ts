type Cell = string | number | boolean | null;

/** A spreadsheet would run these as a formula; a quote before them makes it text, as OWASP advises. */
const FORMULA = /^[=+\-@\t\r]/;

function cell(value: Cell | undefined): string {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string") return String(value);
  const safe = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) || safe !== value ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** CSV (RFC 4180) with a head; texts that begin like a formula are quoted so that no program runs them. */
export function csv(
  fields: readonly string[],
  rows: readonly Readonly<Record<string, Cell | undefined>>[],
): string {
  const lines = rows.map((row) => fields.map((field) => cell(row[field])).join(","));
  return `${[fields.map(cell).join(","), ...lines].join("\r\n")}\r\n`;
}
