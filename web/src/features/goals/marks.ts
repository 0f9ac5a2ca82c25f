/** Where a quote stands in a text that was rendered from Markdown: signs of emphasis and tables do not count. */
/** What begins an item of a list is no text of it. */
const MARKERS = /^\s*(?:[-+*]|\d+[.)])\s+/gmu;
const SIGNS = /[*_`|#>\\\s]+/gu;

interface Flat {
  readonly text: string;
  /** Node and offset of each character of `text`. */
  readonly at: readonly (readonly [node: Text, offset: number])[];
}

const CHARS_MAX = 200_000;

function flatten(root: HTMLElement): Flat {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const at: (readonly [Text, number])[] = [];
  let text = "";
  for (let node = walker.nextNode(); node !== null && text.length < CHARS_MAX; node = walker.nextNode()) {
    const content = (node as Text).data;
    for (let offset = 0; offset < content.length; offset += 1) {
      const sign = content.charAt(offset);
      if (sign.replace(SIGNS, "") === "") continue;
      text += sign;
      at.push([node as Text, offset]);
    }
  }
  return { text, at };
}

/** The range of each quote, null for one that does not stand there; the first place counts. */
export function rangesOf(root: HTMLElement, quotes: readonly string[]): readonly (Range | null)[] {
  const flat = flatten(root);
  return quotes.map((quote) => {
    const wanted = quote.replace(MARKERS, "").replace(SIGNS, "");
    const from = wanted === "" ? -1 : flat.text.indexOf(wanted);
    const first = flat.at[from];
    const last = flat.at[from + wanted.length - 1];
    if (from < 0 || first === undefined || last === undefined) return null;
    const range = document.createRange();
    range.setStart(first[0], first[1]);
    range.setEnd(last[0], last[1] + 1);
    return range;
  });
}
