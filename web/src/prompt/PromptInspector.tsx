import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { inWords } from "@/client/http";
import type { Shape } from "@/client/types";
import type { PromptStep } from "@/projection/rowsPrompt";
import { called } from "@/state/called";
import { dollars, whole } from "@/ui/amounts";
import { cx } from "@/ui/cx";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { PromptDifference } from "./PromptDifference";
import { PromptText } from "./PromptText";
import { manifestQuery } from "./requests";
import { SectionBar } from "./SectionBar";
import { SectionRows } from "./SectionRows";

const VIEWS = ["Sections", "Exact text", "Difference"] as const;
type View = (typeof VIEWS)[number];

interface PromptInspectorProps {
  readonly step: PromptStep;
  /** Who was shown it. */
  readonly agent: string;
}

/** The exact prompt of one model step: of what it was made, what it said, how it differs from the last one. */
export function PromptInspector({ step, agent }: PromptInspectorProps) {
  const [view, setView] = useState<View>("Sections");
  const manifest = useQuery(manifestQuery(step));
  return (
    <section aria-label="Context of a model step" className="flex h-full min-h-0 flex-col">
      <header className="flex flex-wrap items-baseline gap-x-4 px-4 pt-2 text-12">
        <h2 className="min-w-0 font-normal text-ink-2">
          What <span className="text-ink">{called(agent)}</span> saw at{" "}
          <span className="num text-ink">{step.step}</span>
          {step.inputTokens === null && manifest.data !== undefined && (
            <>
              {" "}
              · about <span className="num">{whole(manifest.data.tokens)}</span> tokens
            </>
          )}
        </h2>
        <p className="ml-auto text-ink-2">{answerOf(step)}</p>
      </header>
      <div role="group" aria-label="View of the prompt" className="flex gap-3 px-4 text-12">
        {VIEWS.map((name) => (
          <button
            key={name}
            type="button"
            aria-pressed={view === name}
            onClick={() => setView(name)}
            className={cx(
              "min-h-6 border-b",
              view === name ? "border-accent text-ink" : "border-transparent text-ink-2 hover:text-ink",
            )}
          >
            {name}
          </button>
        ))}
      </div>
      <div tabIndex={0} className="min-h-0 flex-1 overflow-auto px-4 pb-3 -outline-offset-2 scroll-thin">
        {view === "Exact text" && <PromptText runId={step.runId} step={step.step} />}
        {view === "Difference" && (
          <PromptDifference runId={step.runId} step={step.step} previous={step.previous} />
        )}
        {view === "Sections" && manifest.isPending && <Skeleton label="the sections" rows={5} />}
        {view === "Sections" && manifest.isError && (
          <ErrorState {...inWords(manifest.error)} onRetry={() => void manifest.refetch()} />
        )}
        {view === "Sections" && manifest.data !== undefined && <Sections manifest={manifest.data} />}
      </div>
    </section>
  );
}

/** What the server says in place of content that was erased, or that it has no vault key for. */
const GONE: Readonly<Record<string, string>> = {
  "[erased]": "What was sent is erased; what it took and where it came from is still known",
  "[locked]": "What was sent is sealed, and the server has no vault key; what it took is still known",
};

function Sections({ manifest }: { readonly manifest: Shape<"Manifest"> }) {
  const params = Object.entries(manifest.params).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  const scrubbed = Object.entries(manifest.scrubbed).map(([sort, count]) => `${count} ${sort}`);
  return (
    <>
      <SectionBar sections={manifest.sections} />
      <SectionRows manifest={manifest} />
      <p className="mt-1 text-11 text-ink-3">
        {GONE[manifest.model] ??
          `Sent to ${manifest.model}${params.length > 0 ? ` with ${params.join(", ")}` : ""}`}
        . Tokens are estimates of each part.
        {manifest.adapter && ` By ${manifest.adapter}; hash of the HTTP body: ${manifest.body || "none"}.`}
        {(manifest.not_sent ?? []).length > 0 &&
          ` Not sent, since the model takes none such: ${(manifest.not_sent ?? []).join(", ")}.`}
        {scrubbed.length > 0 && ` Personal data was replaced: ${scrubbed.join(", ")}.`}
      </p>
    </>
  );
}

/** What the provider counted; until it has, our own estimate stands beside the name. */
function answerOf(step: PromptStep): string {
  if (step.hasFailed) return "the call failed";
  if (step.inputTokens === null) return "no reply yet";
  const cost = step.microusd === null ? "price unknown" : dollars(step.microusd);
  return `${whole(step.inputTokens)} tokens in, ${whole(step.cachedTokens ?? 0)} of them from cache · ${whole(step.outputTokens ?? 0)} out · ${cost}`;
}
