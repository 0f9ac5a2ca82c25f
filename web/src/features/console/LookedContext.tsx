import { PromptInspector } from "@/prompt/PromptInspector";
import { EmptyState } from "@/ui/EmptyState";
import { LookedEvent } from "./LookedEvent";
import { usePrompts } from "./usePrompts";

/** What was seen: the chosen event in full, and the prompt that stood before it. */
export function LookedContext() {
  const { shown, previous, agent, isNone } = usePrompts();
  return (
    <div className="flex h-full min-h-0 flex-col">
      <LookedEvent />
      <div className="min-h-0 flex-1">
        {shown !== undefined && (
          <PromptInspector
            key={`${shown.runId} ${shown.step}`}
            step={shown}
            previous={previous}
            agent={agent}
          />
        )}
        {shown === undefined && (
          <EmptyState title={isNone ? "No prompt stood before this event" : "No model was asked yet"}>
            {isNone
              ? "Choose an event of a run that has asked a model to see what it was shown."
              : "As soon as an agent decides, what it was shown stands here, part by part."}
          </EmptyState>
        )}
      </div>
    </div>
  );
}
