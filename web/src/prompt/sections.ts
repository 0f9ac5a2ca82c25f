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
}

/** The pieces of a message as one text; null if one of them is no text. */
function pieces(content: unknown): string | null {
  if (!Array.isArray(content)) return null;
  const texts = (content as { readonly type?: unknown; readonly text?: unknown }[]).map((piece) =>
    piece.type === "text" && typeof piece.text === "string" ? piece.text : null,
  );
  return texts.every((text) => text !== null) ? texts.join("") : null;
}

/** The messages of a canonical request, for reading; null if it has another form. */
export function messagesOf(request: string): readonly Sent[] | null {
  try {
    const { messages } = JSON.parse(request) as { readonly messages?: unknown };
    if (!Array.isArray(messages)) return null;
    return (messages as Record<string, unknown>[]).map((message) => {
      const { role, content, ...rest } = message;
      const spoken =
        typeof content === "string" ? content : (pieces(content) ?? JSON.stringify(content, null, 1));
      const more = Object.values(rest).some((value) => value !== null && value !== "");
      const text = [spoken ?? "", more ? JSON.stringify(rest, null, 1) : ""].filter(Boolean).join("\n\n");
      return { role: String(role), text };
    });
  } catch {
    return null;
  }
}
