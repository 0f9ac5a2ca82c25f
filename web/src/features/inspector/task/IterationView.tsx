import { Pill } from "@/ui/Badge";
import { clock } from "@/ui/time";
import type { Tone } from "@/ui/tone";
import { RefButton } from "../parts/RefButton";
import type { ShownIteration } from "./iterations";
import { VerdictView } from "./VerdictView";

interface IterationViewProps {
  readonly iteration: ShownIteration;
  readonly isOpen: boolean;
}

const TONE: Readonly<Record<string, Tone>> = {
  analyze: "neutral",
  use_tool: "membrane",
  create_artifact: "artifact",
  complete_task: "money",
};

function judged(one: ShownIteration): { readonly word: string; readonly tone: Tone } | null {
  if (one.passed === null) return null;
  if (one.passed) return { word: "passed", tone: "money" };
  return one.void === "" ? { word: "not passed", tone: "warn" } : { word: "void", tone: "bad" };
}

/** One step: what was decided and why, what came of it, and how that was judged. */
export function IterationView({ iteration: one, isOpen }: IterationViewProps) {
  const verdict = judged(one);
  return (
    <li className="rounded-control border border-line">
      <details open={isOpen}>
        <summary className="flex items-center gap-2 px-2.5 py-1.5">
          <span className="num">{one.n}</span>
          <Pill tone={TONE[one.action] ?? "bad"}>{one.action === "" ? "no decision" : one.action}</Pill>
          <span className="min-w-0 flex-1 truncate text-ink-2">{one.tool}</span>
          {verdict !== null && <Pill tone={verdict.tone}>{verdict.word}</Pill>}
          <span className="num text-ink-3">{clock(one.atUs)}</span>
        </summary>
        <div className="flex flex-col gap-2 border-t border-line p-2.5">
          {one.reason !== "" && <p className="break-words">{one.reason}</p>}
          {one.repeats > 0 && (
            <p className="text-warn">
              The same decision as before, without new evidence ({one.repeats} times).
            </p>
          )}
          {one.isError && <p className="text-bad">It failed: {one.code === "" ? "an error" : one.code}.</p>}
          {one.artifact !== "" && (
            <p>
              Made <RefButton kind="artifact" to={one.artifact} />
            </p>
          )}
          {one.passed !== null && <VerdictView verdict={one.verdict} reason={one.void} />}
          {one.decision !== null && (
            <details>
              <summary className="text-12 text-ink-2">Decision as JSON</summary>
              <pre
                tabIndex={0}
                className="num mt-1 max-h-60 overflow-auto rounded-control border border-line bg-paper p-2 whitespace-pre-wrap break-words scroll-thin"
              >
                {JSON.stringify(one.decision, null, 2)}
              </pre>
            </details>
          )}
          {one.steering !== "" && (
            <p className="text-11 text-ink-3">
              Steered by <RefButton kind="artifact" to={one.steering} />
            </p>
          )}
        </div>
      </details>
    </li>
  );
}
