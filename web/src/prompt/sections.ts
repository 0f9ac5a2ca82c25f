import type { Shape } from "@/client/types";
import type { Tone } from "@/ui/tone";

export type Section = Shape<"Section">;

const TONES: readonly (readonly [words: RegExp, tone: Tone])[] = [
  [/^(agent|persona|personality|block|core)/, "agent"],
  [/^(artifact|input|output|memor|shared|now|tail)/, "artifact"],
  [/^(task|goal|criteria|policy|steering)/, "membrane"],
  [/^(tool|skill)/, "membrane2"],
];

/** The colour of a section; its tag stands beside it wherever it is used. */
export function toneOf(tag: string): Tone {
  return TONES.find(([words]) => words.test(tag))?.[1] ?? "neutral";
}

export interface Sent {
  readonly role: string;
  readonly text: string;
  readonly media: readonly SentMedium[];
}

/** An image, a sound or a PDF of a message; its bytes are stored by themselves. */
export interface SentMedium {
  readonly blob: string;
  readonly mediaType: string;
  readonly sizeBytes: number;
  readonly pages: number | null;
}

interface Piece {
  readonly type?: unknown;
  readonly text?: unknown;
  readonly data?: unknown;
}

/** The texts of a message as one, and its media; null if something else is in it. */
function piecesOf(content: unknown): Pick<Sent, "text" | "media"> | null {
  if (!Array.isArray(content)) return null;
  const texts: string[] = [];
  const media: SentMedium[] = [];
  for (const piece of content as readonly Piece[]) {
    const medium = mediumOf(piece);
    if (medium !== null) media.push(medium);
    else if (piece.type === "text" && typeof piece.text === "string") texts.push(piece.text);
    else return null;
  }
  return { text: texts.join(""), media };
}

function mediumOf({ type, data }: Piece): SentMedium | null {
  if (type !== "media" || typeof data !== "object" || data === null) return null;
  const { blob, media_type, size_bytes, pages } = data as Readonly<Record<string, unknown>>;
  if (typeof blob !== "string" || typeof media_type !== "string") return null;
  return {
    blob,
    mediaType: media_type,
    sizeBytes: Number(size_bytes) || 0,
    pages: typeof pages === "number" ? pages : null,
  };
}

/** The messages of a canonical request, for reading; null if it has another form. */
export function messagesOf(request: string): readonly Sent[] | null {
  try {
    const { messages } = JSON.parse(request) as { readonly messages?: unknown };
    if (!Array.isArray(messages)) return null;
    return (messages as Record<string, unknown>[]).map((message) => {
      const { role, content, ...rest } = message;
      const pieces = piecesOf(content);
      const spoken =
        typeof content === "string" ? content : (pieces?.text ?? JSON.stringify(content, null, 1));
      const more = Object.values(rest).some((value) => value !== null && value !== "");
      const text = [spoken ?? "", more ? JSON.stringify(rest, null, 1) : ""].filter(Boolean).join("\n\n");
      return { role: String(role), text, media: pieces?.media ?? [] };
    });
  } catch {
    return null;
  }
}
