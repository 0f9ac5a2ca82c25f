import type { Shape } from "@/client/types";

export type Form = "markdown" | "table" | "json" | "text" | "bytes";

type Shown = Pick<Shape<"ArtifactShown">, "id" | "media" | "content" | "metadata">;

/** How a content is best looked at: by what its maker says of it, else by its name, else by its look. */
export function formOf(shown: Shown): Form {
  if (shown.media === "json") return "json";
  if (shown.media === "bytes") return "bytes";
  const said = shown.metadata?.["media"];
  const named = /\.(\w+)$/.exec(shown.id)?.[1]?.toLowerCase();
  if (said === "markdown" || named === "md" || named === "markdown") return "markdown";
  if (said === "csv" || named === "csv") return "table";
  return typeof shown.content === "string" && isCsv(shown.content) ? "table" : "text";
}

const PICTURES: readonly unknown[] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** Whether bytes are a picture that a browser shows, as who wrote them has said. */
export function isPicture(shown: Pick<Shape<"ArtifactShown">, "media" | "metadata">): boolean {
  return shown.media === "bytes" && PICTURES.includes(shown.metadata?.["type"]);
}

/** Several lines with the same number of commas, in what is short enough to be looked through. */
function isCsv(text: string): boolean {
  const rows = readCsv(text.slice(0, 20_000), 20).rows;
  const width = rows[0]?.length ?? 0;
  const whole = rows.slice(0, -1);
  return whole.length >= 2 && width >= 2 && whole.every((row) => row.length === width);
}

interface Csv {
  readonly rows: readonly (readonly string[])[];
  /** Whether there were more. */
  readonly isCut: boolean;
}

/** Comma-separated values as RFC 4180 has them; quotes may hold commas, line ends and doubled quotes. */
export function readCsv(text: string, rowsMax: number): Csv {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  let at = 0;
  const endCell = () => {
    row.push(cell);
    cell = "";
  };
  for (; at < text.length && rows.length < rowsMax; at += 1) {
    const sign = text[at];
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (text[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else quoted = false;
    } else if (sign === '"' && cell === "") quoted = true;
    else if (sign === ",") endCell();
    else if (sign === "\n") {
      endCell();
      rows.push(row);
      row = [];
    } else if (sign !== "\r") cell += sign;
  }
  if (rows.length < rowsMax && (cell !== "" || row.length > 0)) {
    endCell();
    rows.push(row);
  }
  return { rows, isCut: at < text.length };
}

/** Where quoted words stand, white space aside, as evidence is checked; null if they do not. */
export function placeOf(text: string, quote: string): readonly [start: number, end: number] | null {
  const words = quote.trim().split(/\s+/).filter(Boolean);
  const first = words[0];
  if (first === undefined) return null;
  for (let start = text.indexOf(first); start >= 0; start = text.indexOf(first, start + 1)) {
    let at = start;
    const fits = words.every((word) => {
      while (/\s/.test(text[at] ?? "")) at += 1;
      if (!text.startsWith(word, at)) return false;
      at += word.length;
      return true;
    });
    if (fits) return [start, at];
  }
  return null;
}

export function sizeWords(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
