import type { Shape } from "@/client/types";
import type { Tone } from "@/ui/tone";

export type Skill = Shape<"SkillLine">;
export type SkillDetail = Shape<"SkillShown">;
export type Status = Skill["status"];

export const KEY = ["skills"] as const;
/** What events change the list. */
export const NEWS = ["skill."] as const;

const WORDS: Readonly<Record<Status, { readonly word: string; readonly tone: Tone }>> = {
  active: { word: "can be used", tone: "money" },
  parked: { word: "waits for your look", tone: "warn" },
  refused: { word: "refused", tone: "bad" },
};

export function statusWords(status: Status): { readonly word: string; readonly tone: Tone } {
  return WORDS[status];
}

/** Those that wait for a person first; within a status the newest change first. */
export function inOrder(skills: readonly Skill[]): readonly Skill[] {
  const rank: readonly Status[] = ["parked", "refused", "active"];
  return skills.toSorted(
    (a, b) => rank.indexOf(a.status) - rank.indexOf(b.status) || b.changed_us - a.changed_us,
  );
}

/** Why a skill cannot be approved, or null. */
export function noApproval(skill: SkillDetail): string | null {
  if (skill.status === "active") return "It can be used already.";
  if (!skill.usable) return "It cannot be used as it is: mend it at its source first.";
  return null;
}

/** Whoever decided: a person by name, or the checks. */
export function decidedBy(by: string): string {
  return by === "skills" ? "by the checks" : `by ${by}`;
}
