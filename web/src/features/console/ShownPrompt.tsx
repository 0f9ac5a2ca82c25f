import { previousPrompt, type PromptStep } from "@/projection/rowsPrompt";
import { PromptInspector } from "@/prompt/PromptInspector";
import { useGraph } from "@/state/log";

interface ShownPromptProps {
  readonly step: PromptStep;
  readonly all: readonly PromptStep[];
}

/** A prompt with who was shown it, and the one before it. */
export function ShownPrompt({ step, all }: ShownPromptProps) {
  const agent = useGraph().runs.get(step.runId)?.agent || step.runId;
  return <PromptInspector step={step} previous={previousPrompt(all, step)} agent={agent} />;
}
