import { whole } from "@/ui/amounts";

/** A file that goes along with what is said: an artifact, and as much of its text as the model is shown. */
export interface Attachment {
  /** `uploads/sales.csv@1`. */
  readonly ref: string;
  /** "" if it is no text. */
  readonly text: string;
  /** Characters of the whole file; 0 if it is no text. */
  readonly charsTotal: number;
  /** An image, a sound or a PDF, which goes along as it is. */
  readonly isShown: boolean;
}

/** What models can be shown, by the type that the browser gives a file. */
const SHOWN = /^(?:image\/(?:png|jpeg|gif|webp)|audio\/(?:wav|x-wav|mpeg)|application\/pdf)$/;

/** What a message shows the model of one file. The rest stays in the artifact. */
export const ATTACHED_CHARS_MAX = 8000;

const HEAD =
  /^\[attached ([A-Za-z0-9._:/-]{1,128}@\d+), (?:(\d+) of (\d+) characters|no text|(shown))\](?:\n|$)/;

/** What is sent: the words, then each file under a line that says what it is and how much of it follows. */
export function withAttachments(words: string, attachments: readonly Attachment[]): string {
  const blocks = attachments.map(({ ref, text, charsTotal, isShown }) =>
    charsTotal === 0
      ? `[attached ${ref}, ${isShown ? "shown" : "no text"}]\n`
      : `[attached ${ref}, ${text.length} of ${charsTotal} characters]\n${text}\n`,
  );
  return blocks.length === 0 ? words : `${words}\n\n${blocks.join("")}`;
}

/** `type`: as the browser names it. */
export function attachment(ref: string, content: string | null, type = ""): Attachment {
  const text = content ?? "";
  const isShown = content === null && SHOWN.test(type);
  return { ref, text: text.slice(0, ATTACHED_CHARS_MAX), charsTotal: text.length, isShown };
}

/** Refs of what the model is shown with the words. */
export const shownRefs = (attachments: readonly Attachment[]): readonly string[] =>
  attachments.filter((one) => one.isShown).map((one) => one.ref);

/** What becomes of a file in the prompt. */
export function attachedWords({ text, charsTotal, isShown }: Attachment): string {
  if (isShown) return "the model is shown it";
  if (charsTotal === 0) return "no text: the model knows its name only";
  if (text.length < charsTotal)
    return `the model reads ${whole(text.length)} of ${whole(charsTotal)} characters`;
  return `${whole(charsTotal)} characters`;
}

/** The same taken apart again. Lengths are counted, so that nothing within a file looks like another one. */
export function splitAttachments(said: string): {
  readonly words: string;
  readonly attachments: readonly Attachment[];
} {
  for (let at = said.indexOf("\n\n[attached "); at >= 0; at = said.indexOf("\n\n[attached ", at + 1)) {
    const attachments = allFrom(said.slice(at + 2));
    if (attachments !== null) return { words: said.slice(0, at), attachments };
  }
  return { words: said, attachments: [] };
}

/** null if the text is anything but attachments from its beginning to its end. */
function allFrom(source: string): readonly Attachment[] | null {
  const found: Attachment[] = [];
  let rest = source;
  while (rest !== "") {
    const head = HEAD.exec(rest);
    if (head === null) return null;
    const [line, ref = "", length, total, shown] = head;
    rest = rest.slice(line.length);
    const chars = Number(length ?? 0);
    found.push({
      ref,
      text: rest.slice(0, chars),
      charsTotal: Number(total ?? 0),
      isShown: shown !== undefined,
    });
    if (length === undefined) continue;
    // The last line break may be gone: whoever stores words may trim them.
    if (rest.length < chars || (rest.length > chars && rest[chars] !== "\n")) return null;
    rest = rest.slice(chars + 1);
  }
  return found.length === 0 ? null : found;
}
