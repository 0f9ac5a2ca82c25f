import { useMemo } from "react";
import { BlockView } from "./BlockView";
import { parseMarkdown } from "./parse";

interface MarkdownProps {
  readonly source: string;
  readonly className?: string;
}

const CHARS_MAX = 200_000;

/** Markdown as elements of the page: no raw HTML, no images, links that open a new tab when they are chosen. */
export function Markdown({ source, className }: MarkdownProps) {
  const blocks = useMemo(() => parseMarkdown(source.slice(0, CHARS_MAX)), [source]);
  return (
    <div className={className ?? "flex flex-col gap-3 break-words"}>
      {blocks.map((block, index) => (
        <BlockView key={index} block={block} />
      ))}
      {source.length > CHARS_MAX && (
        <p className="text-12 text-ink-2">
          The first {CHARS_MAX.toLocaleString("en-US")} of {source.length.toLocaleString("en-US")} characters
          are shown.
        </p>
      )}
    </div>
  );
}
