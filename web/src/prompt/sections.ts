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

/** The messages of a canonical request, for reading; null if it has another form. */
export function messagesOf(request: string): readonly Sent[] | null {
  try {
    const { messages } = JSON.parse(request) as { readonly messages?: unknown };
    if (!Array.isArray(messages)) return null;
    return (messages as Record<string, unknown>[]).map((message) => {
      const { role, content, ...rest } = message;
      const spoken = typeof content === "string" ? content : JSON.stringify(content, null, 1);
      const more = Object.values(rest).some((value) => value !== null && value !== "");
      const text = [spoken ?? "", more ? JSON.stringify(rest, null, 1) : ""].filter(Boolean).join("\n\n");
      return { role: String(role), text };
    });
  } catch {
    return null;
  }
}
