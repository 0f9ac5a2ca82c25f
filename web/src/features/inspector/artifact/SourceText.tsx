import { useEffect, useRef } from "react";
import { placeOf } from "./forms";

interface SourceTextProps {
  readonly source: string;
  /** Words to mark. */
  readonly quote: string;
}

const CHARS_MAX = 200_000;

/** The exact text, with quoted words marked where they stand. */
export function SourceText({ source, quote }: SourceTextProps) {
  const mark = useRef<HTMLElement>(null);
  const shown = source.slice(0, CHARS_MAX);
  const place = quote === "" ? null : placeOf(shown, quote);

  useEffect(() => {
    mark.current?.scrollIntoView({ block: "center" });
  }, [quote, source]);

  return (
    <>
      {quote !== "" && place === null && (
        <p role="status" className="text-warn">
          The quoted words do not stand in this version.
        </p>
      )}
      <pre
        tabIndex={0}
        className="num max-h-160 overflow-auto rounded-control border border-line bg-paper p-2 whitespace-pre-wrap break-words scroll-thin"
      >
        {place === null ? (
          shown
        ) : (
          <>
            {shown.slice(0, place[0])}
            <mark ref={mark} className="rounded-[2px] bg-accent text-accent-ink">
              {shown.slice(...place)}
            </mark>
            {shown.slice(place[1])}
          </>
        )}
      </pre>
      {source.length > CHARS_MAX && (
        <p className="text-12 text-ink-2">
          The first {CHARS_MAX.toLocaleString("en-US")} characters; the download has them all.
        </p>
      )}
    </>
  );
}
