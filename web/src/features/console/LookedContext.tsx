import { EmptyState } from "@/ui/EmptyState";
import { LookedEvent } from "./LookedEvent";
import { ShownPrompt } from "./ShownPrompt";
import { usePrompts } from "./usePrompts";

/** What was seen: the chosen event in full, and the prompt that stood before it. */
export function LookedContext() {
  const { shown, isNone } = usePrompts();
  return (
    <div className="flex h-full min-h-0 flex-col">
      <LookedEvent />
      <div className="min-h-0 flex-1">
        {shown !== undefined && <ShownPrompt key={`${shown.runId} ${shown.step}`} step={shown} />}
        {shown === undefined && (
          <EmptyState title={isNone ? "No prompt stood before this event" : "No model was asked yet"}>
            {isNone
              ? "Choose a later event of a run to see what its model was shown."
              : "As soon as an agent decides, what it was shown stands here, part by part."}
          </EmptyState>
        )}
      </div>
    </div>
  );
}
