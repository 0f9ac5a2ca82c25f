/** A colour with a meaning. It never stands alone: a word, an icon or a shape says the same. */
export type Tone =
  "neutral" | "agent" | "artifact" | "membrane" | "membrane2" | "money" | "warn" | "bad" | "accent";

export const TEXT_TONE: Readonly<Record<Tone, string>> = {
  neutral: "text-ink-2",
  agent: "text-agent",
  artifact: "text-artifact",
  membrane: "text-membrane",
  membrane2: "text-membrane-2",
  money: "text-money",
  warn: "text-warn",
  bad: "text-bad",
  accent: "text-accent",
};

export const FILL_TONE: Readonly<Record<Tone, string>> = {
  neutral: "bg-ink-3",
  agent: "bg-agent",
  artifact: "bg-artifact",
  membrane: "bg-membrane",
  membrane2: "bg-membrane-2",
  money: "bg-money",
  warn: "bg-warn",
  bad: "bg-bad",
  accent: "bg-accent",
};
