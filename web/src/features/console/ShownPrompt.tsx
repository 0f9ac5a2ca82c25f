import type { PromptStep } from "@/projection/rowsPrompt";
import { PromptInspector } from "@/prompt/PromptInspector";
import { useGraph } from "@/state/log";

/** A prompt with who was shown it. */
export function ShownPrompt({ step }: { readonly step: PromptStep }) {
  const agent = useGraph().runs.get(step.runId)?.agent || step.runId;
  return <PromptInspector step={step} agent={agent} />;
}
