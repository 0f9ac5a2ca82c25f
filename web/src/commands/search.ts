/**
 * How well `text` answers `query`: null if it does not, higher is better. All letters of the query occur in
 * order; whole words, beginnings and neighbours count more.
 */
export function score(query: string, text: string): number | null {
  const wanted = query.trim().toLowerCase();
  const within = text.toLowerCase();
  if (wanted === "") return 0;
  const whole = within.indexOf(wanted);
  if (whole >= 0) return 1000 - whole - within.length / 100 + (isBeginning(within, whole) ? 100 : 0);
  let points = 0;
  let from = 0;
  for (const letter of wanted) {
    if (letter === " ") continue;
    const at = within.indexOf(letter, from);
    if (at < 0) return null;
    points += isBeginning(within, at) ? 8 : at === from ? 4 : 1;
    from = at + 1;
  }
  return points - within.length / 100;
}

function isBeginning(text: string, at: number): boolean {
  return at === 0 || /[\s/_.-]/.test(text.charAt(at - 1));
}

export const FOUND_MAX = 50;

interface Searchable {
  readonly text: string;
  readonly enabled: { readonly ok: boolean };
}

/** Puts what cannot be run behind whatever matches well and can. */
const DISABLED = -500;

/** The best matches first; equal ones keep their order. */
export function search<T extends Searchable>(
  query: string,
  items: readonly T[],
  most = FOUND_MAX,
): readonly T[] {
  return items
    .flatMap((item) => {
      const points = score(query, item.text);
      return points === null ? [] : [{ item, points: points + (item.enabled.ok ? 0 : DISABLED) }];
    })
    .sort((a, b) => b.points - a.points)
    .slice(0, most)
    .map((match) => match.item);
}
