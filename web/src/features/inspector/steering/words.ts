import type { Shape } from "@/client/types";
import { shortName } from "@/projection/event";
import { clock } from "@/ui/time";

type Shown = Shape<"SteeringShown">;

/** From where on a change counts, as a sentence. */
export function effectWords(from: Shown["from_iteration"]): string {
  const [first, ...others] = from;
  if (first === undefined) return "Takes effect as soon as there is a task to work on.";
  if (others.length === 0) {
    const begins = first.is_begun ? "" : ", which has not begun";
    return `Takes effect at step ${first.iteration} of ${shortName(first.task)}${begins}.`;
  }
  const each = from.map((one) => `${shortName(one.agent)} at step ${one.iteration}`);
  return `Takes effect for ${each.join(", ")}.`;
}

export function versionWords(shown: Pick<Shown, "version" | "changed_by" | "changed_us">): string {
  if (shown.version === 0) return "Nobody has steered yet: these are the defaults.";
  const by = shown.changed_by === null ? "" : ` by ${shown.changed_by}`;
  const at = shown.changed_us === null ? "" : ` at ${clock(shown.changed_us)}`;
  return `Version ${shown.version}${by}${at}.`;
}

/** What the puck asks for, beside its words. */
export function policyParameters(policy: Shape<"Policy">): readonly (readonly [string, string])[] {
  return [
    ["Temperature", policy.temperature.toFixed(1)],
    ["Alternatives weighed", String(policy.alternatives)],
    ["Tools listed", policy.breadth === null ? "any enabled tool" : `at most ${policy.breadth}`],
    ["Sources at least", String(policy.sources_min)],
    ["Words of an output", `about ${policy.words_target.toLocaleString("en-US")}`],
  ];
}
