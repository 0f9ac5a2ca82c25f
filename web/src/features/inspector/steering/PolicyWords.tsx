import type { Shape } from "@/client/types";
import { parameterWords } from "./words";

interface PolicyWordsProps {
  readonly policy: Shape<"Policy">;
  /** Whether it is of a place where the puck does not rest yet. */
  readonly isPreview: boolean;
  /** From where on it counts. */
  readonly effect: string;
}

/** What the puck means: the words that stand in prompts, and the parameters, as the server says them. */
export function PolicyWords({ policy, isPreview, effect }: PolicyWordsProps) {
  return (
    <div className="flex flex-col gap-2">
      <p className="text-12 whitespace-pre-line text-ink-2">{policy.text}</p>
      <p className="num text-ink-2">{parameterWords(policy)}</p>
      <p role="status" className="text-12 font-medium">
        {isPreview ? "Let go to save. " : ""}
        {effect}
      </p>
    </div>
  );
}
