/** A document as plain data. Nothing in it is HTML: what looks like a tag stays text. */
export type Inline =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "strong" | "em"; readonly inner: readonly Inline[] }
  | { readonly kind: "link"; readonly inner: readonly Inline[]; readonly href: string };

export type Align = "left" | "right" | "center";

export type Block =
  | { readonly kind: "heading"; readonly level: number; readonly inner: readonly Inline[] }
  | { readonly kind: "paragraph"; readonly inner: readonly Inline[] }
  | { readonly kind: "code"; readonly text: string }
  | {
      readonly kind: "list";
      readonly ordered: boolean;
      readonly start: number;
      readonly items: readonly Item[];
    }
  | { readonly kind: "quote"; readonly blocks: readonly Block[] }
  | {
      readonly kind: "table";
      readonly aligns: readonly Align[];
      readonly head: readonly (readonly Inline[])[];
      readonly rows: readonly (readonly (readonly Inline[])[])[];
    }
  | { readonly kind: "rule" };

export type Item = readonly Block[];

const DEPTH_MAX = 6;
/** Of one document: what the page can lay out at once. The rest of it is shown as it was written. */
export const NODES_MAX = 20_000;
const COLUMNS_MAX = 100;
// Each expression reads a line once, whatever the line is: behind a repetition of spaces nothing can fail.
const FENCE = /^\s{0,3}(```+|~~~+)/;
const HEADING = /^\s{0,3}(#{1,6})\s+(.*)$/s;
const RULE = /^\s{0,3}([-*_])(?:\s*\1){2,}\s*$/;
const BULLET = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/s;
const QUOTE = /^\s{0,3}>\s?(.*)$/s;
const DIVIDER_CELL = /^:?-+:?$/;

/** How many nodes a document may still get. */
interface Budget {
  left: number;
}

/** The blocks of a text in Markdown: the common part of it, without raw HTML and without images.
 *  Cost: O(length), whatever the text is; at most about `NODES_MAX` nodes. */
export function parseMarkdown(source: string): readonly Block[] {
  return blocksOf(source.replace(/\r\n?/g, "\n").split("\n"), 0, { left: NODES_MAX });
}

/** The words of a text in Markdown in one line, without its signs. Cost: as `parseMarkdown`. */
export function plainText(source: string): string {
  return parseMarkdown(source).map(wordsOf).filter(Boolean).join(" ");
}

function wordsOf(block: Block): string {
  const spans = (inner: readonly Inline[]): string =>
    inner.map((one) => ("text" in one ? one.text : spans(one.inner))).join("");
  const all = (blocks: readonly Block[]) => blocks.map(wordsOf).filter(Boolean).join(" ");
  switch (block.kind) {
    case "heading":
    case "paragraph":
      return spans(block.inner);
    case "code":
      return block.text;
    case "list":
      return block.items.map(all).join(" ");
    case "quote":
      return all(block.blocks);
    case "table":
      return [block.head, ...block.rows].map((row) => row.map(spans).join(" · ")).join(" ");
    case "rule":
      return "";
  }
}

function blocksOf(lines: readonly string[], depth: number, budget: Budget): readonly Block[] {
  const found: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      at += 1;
      continue;
    }
    if (budget.left <= 0) {
      found.push({ kind: "code", text: lines.slice(at).join("\n") });
      return found;
    }
    budget.left -= 1;
    const [block, next] = blockAt(lines, at, depth, budget);
    found.push(block);
    at = next;
  }
  return found;
}

function blockAt(
  lines: readonly string[],
  at: number,
  depth: number,
  budget: Budget,
): readonly [Block, number] {
  const line = lines[at] ?? "";
  const fence = FENCE.exec(line)?.[1];
  if (fence !== undefined) return codeAt(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading !== null) {
    const inner = inlines(withoutClosing(heading[2] ?? ""), budget);
    return [{ kind: "heading", level: (heading[1] ?? "#").length, inner }, at + 1];
  }
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (depth < DEPTH_MAX && QUOTE.test(line)) return quoteAt(lines, at, depth, budget);
  if (depth < DEPTH_MAX && BULLET.test(line)) return listAt(lines, at, depth, budget);
  if (line.includes("|") && isDivider(lines[at + 1] ?? "")) return tableAt(lines, at, budget);
  return paragraphAt(lines, at, budget);
}

/** A heading without the signs that may close it: `## Title ##`. */
function withoutClosing(title: string): string {
  const trimmed = title.trimEnd();
  let end = trimmed.length;
  while (trimmed[end - 1] === "#") end -= 1;
  const isClosed = end < trimmed.length && (end === 0 || /\s/.test(trimmed[end - 1] ?? ""));
  return isClosed ? trimmed.slice(0, end).trimEnd() : trimmed;
}

function isDivider(line: string): boolean {
  return line.includes("-") && cells(line).every((cell) => DIVIDER_CELL.test(cell));
}

function codeAt(lines: readonly string[], at: number, fence: string): readonly [Block, number] {
  let end = at + 1;
  while (end < lines.length && !(lines[end] ?? "").trimStart().startsWith(fence)) end += 1;
  return [{ kind: "code", text: lines.slice(at + 1, end).join("\n") }, end + 1];
}

function quoteAt(
  lines: readonly string[],
  at: number,
  depth: number,
  budget: Budget,
): readonly [Block, number] {
  const inner: string[] = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const quoted = QUOTE.exec(lines[end] ?? "")?.[1];
    if (quoted === undefined) break;
    inner.push(quoted);
  }
  return [{ kind: "quote", blocks: blocksOf(inner, depth + 1, budget) }, end];
}

function listAt(
  lines: readonly string[],
  at: number,
  depth: number,
  budget: Budget,
): readonly [Block, number] {
  const first = BULLET.exec(lines[at] ?? "");
  const marker = first?.[2] ?? "-";
  const ordered = /\d/.test(marker);
  const indent = (first?.[1] ?? "").length;
  const items: Item[] = [];
  let end = at;
  while (end < lines.length) {
    const bullet = BULLET.exec(lines[end] ?? "");
    if (bullet === null || (bullet[1] ?? "").length !== indent || /\d/.test(bullet[2] ?? "") !== ordered)
      break;
    const inner = [bullet[3] ?? ""];
    end += 1;
    // What is indented deeper belongs to the item; an empty line ends it unless more of it follows.
    for (; end < lines.length; end += 1) {
      const line = lines[end] ?? "";
      const isDeeper = line.trim() !== "" && line.length - line.trimStart().length > indent;
      const follows = line.trim() === "" && /^\s+\S/.test(lines[end + 1] ?? "");
      const isLazy = line.trim() !== "" && lines[end - 1]?.trim() !== "" && !startsBlock(line);
      if (!isDeeper && !follows && !isLazy) break;
      inner.push(line.slice(Math.min(indent + 2, line.length - line.trimStart().length)));
    }
    budget.left -= 1;
    items.push(blocksOf(inner, depth + 1, budget));
    if ((lines[end] ?? "").trim() === "" && BULLET.test(lines[end + 1] ?? "")) end += 1;
  }
  return [{ kind: "list", ordered, start: Number.parseInt(marker, 10) || 1, items }, end];
}

function startsBlock(line: string): boolean {
  return [FENCE, HEADING, RULE, BULLET, QUOTE].some((form) => form.test(line));
}

function cells(line: string): readonly string[] {
  const trimmed = line
    .trim()
    .replace(/^\|/, "")
    .replace(/(?<!\\)\|$/, "");
  return trimmed.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function tableAt(lines: readonly string[], at: number, budget: Budget): readonly [Block, number] {
  const columns = cells(lines[at + 1] ?? "").slice(0, COLUMNS_MAX);
  const aligns = columns.map((cell): Align => {
    if (cell.endsWith(":")) return cell.startsWith(":") ? "center" : "right";
    return "left";
  });
  const row = (line: string) => {
    const found = cells(line).slice(0, COLUMNS_MAX);
    budget.left -= found.length;
    return found.map((cell) => inlines(cell, budget));
  };
  const head = row(lines[at] ?? "");
  const rows: (readonly (readonly Inline[])[])[] = [];
  let end = at + 2;
  for (; end < lines.length && budget.left > 0 && (lines[end] ?? "").includes("|"); end += 1) {
    // A row has as many cells as the head, however few are written.
    budget.left -= head.length;
    rows.push(row(lines[end] ?? ""));
  }
  return [
    {
      kind: "table",
      aligns,
      head,
      rows,
    },
    end,
  ];
}

function paragraphAt(lines: readonly string[], at: number, budget: Budget): readonly [Block, number] {
  let end = at + 1;
  while (end < lines.length && (lines[end] ?? "").trim() !== "" && !startsBlock(lines[end] ?? "")) end += 1;
  return [{ kind: "paragraph", inner: inlines(lines.slice(at, end).join("\n"), budget) }, end];
}

const LINK = /^\[([^[\]]{1,1000})\]\(<?([^\s()<>]{1,2000})>?(?:\s+"[^"]{0,500}")?\)/;
const SAFE = /^(https?|mailto):/i;
const SPAN_MAX = 4_000;

/** Emphasis, code and links within a line. Each character is looked at a bounded number of times. */
function inlines(source: string, budget: Budget, depth = 0): readonly Inline[] {
  const found: Inline[] = [];
  let plain = "";
  const flush = () => {
    if (plain !== "") found.push({ kind: "text", text: plain });
    plain = "";
  };
  let at = 0;
  while (at < source.length) {
    const span = depth < DEPTH_MAX && budget.left > 0 ? spanAt(source, at, depth, budget) : null;
    if (span === null && source[at] === "`") {
      // Signs that no other run closes are text, all of them at once: looked at one by one, each would be
      // compared with all behind it.
      const end = endOfTicks(source, at);
      plain += source.slice(at, end);
      at = end;
    } else if (span === null) {
      if (source[at] === "\\" && /[\\`*_[\]()#|>-]/.test(source[at + 1] ?? "")) at += 1;
      plain += source[at] ?? "";
      at += 1;
    } else {
      flush();
      budget.left -= 2; // with the text before it
      found.push(span[0]);
      at = span[1];
    }
  }
  flush();
  return found;
}

function spanAt(source: string, at: number, depth: number, budget: Budget): readonly [Inline, number] | null {
  const sign = source[at];
  if (sign === "`") return codeSpan(source, at);
  if (sign === "*" || sign === "_") return emphasis(source, at, sign, depth, budget);
  if (sign !== "[") return null;
  const link = LINK.exec(source.slice(at, at + SPAN_MAX));
  const href = link?.[2] ?? "";
  if (link === null || !SAFE.test(href)) return null;
  return [{ kind: "link", href, inner: inlines(link[1] ?? "", budget, depth + 1) }, at + link[0].length];
}

function codeSpan(source: string, at: number): readonly [Inline, number] | null {
  const ticks = endOfTicks(source, at);
  const fence = source.slice(at, ticks);
  const end = source.slice(0, ticks + SPAN_MAX).indexOf(fence, ticks);
  if (end < 0) return null;
  return [{ kind: "code", text: source.slice(ticks, end).trim() }, end + fence.length];
}

function endOfTicks(source: string, at: number): number {
  let end = at;
  while (source[end] === "`") end += 1;
  return end;
}

function emphasis(
  source: string,
  at: number,
  sign: string,
  depth: number,
  budget: Budget,
): readonly [Inline, number] | null {
  const isStrong = source[at + 1] === sign;
  const mark = isStrong ? sign + sign : sign;
  const start = at + mark.length;
  // `snake_case` is a name, and a sign before a space is a sign.
  if (/\s|^$/.test(source[start] ?? "") || (sign === "_" && /\w/.test(source[at - 1] ?? ""))) return null;
  const end = source.slice(0, start + SPAN_MAX).indexOf(mark, start + 1);
  if (end < 0 || /\s/.test(source[end - 1] ?? " ")) return null;
  if (sign === "_" && /\w/.test(source[end + mark.length] ?? "")) return null;
  const inner = inlines(source.slice(start, end), budget, depth + 1);
  return [{ kind: isStrong ? "strong" : "em", inner }, end + mark.length];
}
