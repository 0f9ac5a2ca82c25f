import type { ReactNode } from "react";
import type { Shape } from "@/client/types";
import { idOf } from "@/projection/event";
import { eventLog } from "@/state/log";
import { select } from "@/state/ui";
import { whole } from "@/ui/amounts";
import { Pill } from "@/ui/Badge";
import { cx } from "@/ui/cx";
import { FILL_TONE } from "@/ui/tone";
import { type Section, toneOf } from "./sections";

/** The sections in the order in which they were sent: what, of what, why, how many tokens; then what was left out. */
export function SectionRows({ manifest }: { readonly manifest: Shape<"Manifest"> }) {
  const boundary = manifest.cache_boundary;
  return (
    <ol aria-label="Sections of the prompt" className="text-12">
      {manifest.sections.map((section, index) => (
        <li key={index}>
          {index === boundary && boundary > 0 && <Boundary />}
          <Line
            mark={<span className={cx("block size-2 rounded-[2px]", FILL_TONE[toneOf(section.tag)])} />}
            name={section.tag}
            sources={section.source}
            why={whyOf(section)}
            tokens={section.tokens}
            isUntrusted={section.trust === "untrusted"}
          />
        </li>
      ))}
      {boundary > 0 && boundary >= manifest.sections.length && (
        <li>
          <Boundary />
        </li>
      )}
      {manifest.dropped.map((one, index) => (
        <li key={`dropped ${index}`} className="text-ink-3">
          <Line
            mark={<span className="block size-2 rounded-full border border-dashed border-current" />}
            name={`left out: ${one.tag}`}
            sources={[]}
            why={one.why}
            tokens={one.tokens}
            isUntrusted={false}
          />
        </li>
      ))}
    </ol>
  );
}

function whyOf(section: Section): string {
  return section.cut === "" ? section.reason : `${section.reason}; shortened: ${section.cut}`;
}

function Boundary() {
  return (
    <div className="my-0.5 flex items-center gap-2 text-11 text-ink-3">
      <span className="flex-1 border-t border-dashed border-edge" />
      cache boundary: the sections above stay the same
      <span className="w-4 border-t border-dashed border-edge" />
    </div>
  );
}

interface LineProps {
  readonly mark: ReactNode;
  readonly name: string;
  readonly sources: readonly string[];
  readonly why: string;
  readonly tokens: number;
  readonly isUntrusted: boolean;
}

function Line({ mark, name, sources, why, tokens, isUntrusted }: LineProps) {
  return (
    <div className="flex min-h-6 items-baseline gap-2">
      <span aria-hidden="true" className="self-center">
        {mark}
      </span>
      <span className="max-w-[45%] min-w-0 truncate" title={name}>
        {name}
      </span>
      <span className="flex min-w-0 flex-1 items-baseline gap-x-2 overflow-hidden">
        {isUntrusted && <Pill tone="warn">untrusted</Pill>}
        {sources.map((source) => (
          <Source key={source} source={source} />
        ))}
      </span>
      <span className="max-w-[45%] min-w-0 truncate text-right text-ink-2" title={why}>
        {why}
      </span>
      <span className="num w-14 shrink-0 text-right text-ink-2">{whole(tokens)}</span>
    </div>
  );
}

/** Where a section comes from; an artifact that the page knows can be opened. */
function Source({ source }: { readonly source: string }) {
  const id = idOf(source);
  if (eventLog.graph.artifacts.get(id) === undefined)
    return <span className="num truncate text-11 text-ink-3">{source}</span>;
  return (
    <button
      type="button"
      title={source}
      className="num min-w-0 truncate text-11 text-ink-3 underline decoration-dotted hover:text-ink"
      onClick={() => select("artifact", id)}
    >
      {source.slice(source.lastIndexOf("/") + 1)}
    </button>
  );
}
