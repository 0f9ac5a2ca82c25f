import { useMemo } from "react";
import { timeOf } from "@/shell/eventRow";
import type { Run } from "@/projection/graph";
import { promptSteps } from "@/projection/rowsPrompt";
import { eventsOfStep, type StepLine } from "@/projection/timelineSteps";
import { PromptInspector } from "@/prompt/PromptInspector";
import { useRunHistory } from "@/state/runHistory";
import { EmptyState } from "@/ui/EmptyState";

/** A step of a model with its prompt, any other with what it was given and what came out. */
export function StepDetail({ run, step }: { readonly run: Run; readonly step: StepLine }) {
  const events = useRunHistory(run.id);
  const prompts = useMemo(() => promptSteps(events), [events]);
  const prompt = prompts.find((one) => one.runId === run.id && one.step === step.key);
  if (prompt !== undefined) return <PromptInspector step={prompt} agent={run.agent || run.id} />;
  const mine = eventsOfStep(events, run.id, step.key);
  if (mine.length === 0)
    return (
      <EmptyState title="Its events are not here">
        They are older than what this page keeps; <code className="num">artelier runs show</code> has them.
      </EmptyState>
    );
  return (
    <section
      aria-label={`Step ${step.key}`}
      tabIndex={0}
      className="h-full overflow-auto px-4 py-2 -outline-offset-2 scroll-thin"
    >
      {mine.map((event) => (
        <article key={event.position} className="mb-3">
          <h2 className="num text-12 font-normal">
            <span className="text-ink-3">{timeOf({ atUs: event.at_us, space: event.space })}</span>{" "}
            {event.kind}
          </h2>
          {Object.entries(event.texts).map(([field, value]) => (
            <pre
              key={field}
              className="num mt-1 rounded-control border border-line bg-paper p-2 break-words whitespace-pre-wrap"
            >
              <span className="text-ink-3">{field}: </span>
              {value}
            </pre>
          ))}
          <pre className="num mt-1 break-words whitespace-pre-wrap text-ink-2">
            {JSON.stringify(event.data, null, 1)}
          </pre>
        </article>
      ))}
    </section>
  );
}
