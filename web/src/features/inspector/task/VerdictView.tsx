import { openArtifact } from "../state";
import { Mark } from "./Mark";
import { type Verdict, voidWords } from "./verdict";

interface VerdictViewProps {
  readonly verdict: Verdict;
  /** Why it does not count; "" if it does. */
  readonly reason: string;
}

/** A verdict, criterion by criterion, with its quotes; a quote opens the version that it was taken from. */
export function VerdictView({ verdict, reason }: VerdictViewProps) {
  return (
    <div className="flex flex-col gap-2">
      {verdict.summary !== "" && <p className="text-ink-2">{verdict.summary}</p>}
      {reason !== "" && <p className="text-bad">The verdict does not count: {voidWords(reason)}.</p>}
      {verdict.faults.map((fault) => (
        <p key={fault} className="break-words text-bad">
          {fault}
        </p>
      ))}
      {verdict.advice?.map((advice) => (
        <p key={advice} className="break-words text-ink-2">
          {advice}
        </p>
      ))}
      <ul className="flex flex-col gap-2">
        {verdict.criteria.map((one, index) => (
          <li key={index} className="flex gap-2">
            <Mark isMet={one.met} />
            <div className="flex min-w-0 flex-col gap-1">
              <p className="break-words">{one.criterion}</p>
              {one.missing !== "" && <p className="break-words text-warn">Missing: {one.missing}</p>}
              {one.evidence.map((evidence, at) => (
                <button
                  key={at}
                  type="button"
                  title={`Open ${evidence.ref}`}
                  onClick={() => openArtifact(evidence.ref, evidence.quote)}
                  className="border-l-2 border-artifact pl-2 text-left break-words text-ink-2 hover:text-ink"
                >
                  “{evidence.quote}”<span className="num block break-all text-ink-3">{evidence.ref}</span>
                </button>
              ))}
            </div>
          </li>
        ))}
        {verdict.checks.map((check, index) => (
          <li key={`check ${index}`} className="flex gap-2">
            <Mark isMet={check.passed} />
            <p className="min-w-0 break-words">
              {check.kind}: {check.found}
            </p>
          </li>
        ))}
      </ul>
    </div>
  );
}
